from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.catalog import Policies
from tocsin.domain.decide import Hold, Person, Skip, Step
from tocsin.domain.delivery.backoff import Exponential, Ladder
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import CLAIMED, State, may_become
from tocsin.domain.ids import LeaseId, uuid7
from tocsin.engine.dispatch.attempt import Aim, aim_at
from tocsin.engine.settle.settlements import LEASE_EXPIRED, buried, ended, held, settlement, skipped
from tocsin.store.deliveries.claim import ClaimedDelivery, ReachedDevice
from tocsin.store.deliveries.settle import SentDelivery, UnsentDelivery

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TRIED = NOW - timedelta(seconds=2)
SECOND = timedelta(seconds=1)
LEASE = LeaseId(UUID(int=7))
THREE = Policies(attempts={"push": 3}, backoff=Ladder((SECOND, 10 * SECOND)))

waits = st.timedeltas(min_value=timedelta(), max_value=timedelta(days=1))
words = st.text(max_size=700)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Sent, st.none() | words),
    st.builds(Retry, words, words, st.none() | waits),
    st.builds(Defer, words, waits, words, st.booleans(), st.booleans()),
    st.builds(Rejected, words, words, st.booleans()),
    st.builds(Gone, words, words),
)
policies = st.builds(
    Policies,
    attempts=st.dictionaries(st.just("push"), st.integers(1, 10)),
    backoff=st.just(Exponential(SECOND, 60 * SECOND)) | st.just(Ladder((SECOND,))),
)
randoms = st.floats(0, 1, exclude_max=True)


PHONE = ReachedDevice(
    id=uuid7(),
    token="token",
    provider="fcm",
    platform="android",
    locale=None,
    timezone=None,
    last_seen_at=NOW,
)
STEP = Step(rule="toggle", result="pass", detail="switched on", at=NOW)


def aimed(attempts: int = 0, *, rescued: bool = False) -> Aim:
    claimed = ClaimedDelivery(
        id=uuid7(),
        notification_id=uuid7(),
        channel="push",
        due_at=NOW,
        attempts=attempts,
        rescued=rescued,
        behind=False,
        superseded=False,
        user_id="ada",
        address=None,
        device_id=None,
        ordering_key=None,
        reserved=False,
        digest_key=None,
        digest_id=None,
        type="t",
        version=1,
        payload="{}",
        collapse_key=None,
        expires_at=None,
        send_at_local=None,
        accepted_at=NOW,
        cancelled=False,
        producer="p",
        request_id=None,
        trace_id=None,
        mailbox=None,
        suppressed=False,
        fallback_for=None,
        confirmed=False,
        awaited_at=None,
        person=Person(),
        locale=None,
        devices=(PHONE,),
    )
    return aim_at(claimed, LEASE, (STEP,), PHONE)


def judge(
    outcome: Outcome, attempts: int = 0, policies: Policies = THREE, random: float = 0.5
) -> SentDelivery | UnsentDelivery:
    return settlement(aimed(attempts), outcome, policies=policies, tried_at=TRIED, now=NOW, random=random)


def unsent(outcome: Outcome, attempts: int = 0, random: float = 0.5) -> UnsentDelivery:
    settled = judge(outcome, attempts, random=random)
    assert isinstance(settled, UnsentDelivery)
    return settled


@given(outcomes, st.integers(0, 12), policies, randoms)
def test_every_settlement_is_a_legal_transition(
    outcome: Outcome, attempts: int, policies: Policies, random: float
) -> None:
    settled = judge(outcome, attempts, policies, random)
    target = State.SENT if isinstance(settled, SentDelivery) else settled.state
    # A delivery is retrying only after a spent attempt; under lease it is pending or retrying.
    possible = CLAIMED if attempts else {State.PENDING}

    assert all(may_become(state, target) for state in possible)


@given(outcomes, st.integers(0, 12), policies, randoms)
def test_what_waits_again_is_due_later_and_what_is_settled_is_not(
    outcome: Outcome, attempts: int, policies: Policies, random: float
) -> None:
    settled = judge(outcome, attempts, policies, random)
    if isinstance(settled, UnsentDelivery):
        if settled.state in {State.RETRYING, State.SCHEDULED}:
            assert settled.due_at is not None
            assert settled.due_at >= NOW
        else:
            assert settled.due_at is None


@given(outcomes)
def test_what_is_written_of_an_answer_can_be_stored(outcome: Outcome) -> None:
    settled = judge(outcome)
    if isinstance(settled, SentDelivery):
        texts = [settled.message_id]
    else:
        texts = [settled.code, settled.detail, settled.retire]
    for text in texts:
        assert text is None or ("\x00" not in text and len(text.encode()) < 4_000)


@pytest.mark.parametrize("state", sorted(CLAIMED))
def test_what_is_settled_untried_is_a_legal_transition(state: State) -> None:
    aim = aimed(1 if state is State.RETRYING else 0, rescued=True)
    untried = [
        skipped(aim, Reason.NO_DEVICE, NOW),
        ended(aim, Skip((), "expired"), NOW),
        ended(aim, Skip((), "cancelled"), NOW),
        ended(aim, Skip((), Reason.OPTED_OUT), NOW),
        held(aim, Hold((), held_by="order"), NOW),
        held(aim, Hold((), until=NOW + SECOND), NOW),
        buried(aim, NOW),
    ]

    for settled in untried:
        assert may_become(state, settled.state)
        assert settled.spent == 0


@pytest.mark.parametrize(
    ("reason", "state", "kept"),
    [
        ("expired", State.EXPIRED, None),
        ("cancelled", State.CANCELLED, None),
        (Reason.OPTED_OUT, State.SKIPPED, "opted_out"),
        (Reason.COLLAPSED, State.SKIPPED, "collapsed"),
    ],
)
def test_an_end_is_a_state_of_its_own_or_a_skip_with_its_reason(
    reason: Reason | Literal["cancelled", "expired"], state: State, kept: str | None
) -> None:
    settled = ended(aimed(), Skip((), reason), NOW)

    assert (settled.state, settled.reason, settled.outcome, settled.due_at) == (state, kept, None, None)


@pytest.mark.parametrize(("attempts", "state"), [(0, State.SCHEDULED), (2, State.RETRYING)])
@pytest.mark.parametrize("hold", [Hold((), until=NOW + SECOND), Hold((), held_by="type:t")])
def test_what_is_held_waits_for_its_time_or_for_its_holder(hold: Hold, attempts: int, state: State) -> None:
    settled = held(aimed(attempts), hold, NOW)

    assert (settled.state, settled.due_at, settled.held_by) == (state, hold.until, hold.held_by)
    assert (settled.outcome, settled.device_id) == (None, None)


@given(outcomes)
def test_every_settlement_tells_how_it_came_to_that_and_at_which_device(outcome: Outcome) -> None:
    settled = judge(outcome)

    assert settled.decisions is not None
    assert msgspec.json.decode(settled.decisions, type=list[Step]) == [STEP]
    assert (settled.device_id, settled.provider) == (PHONE.id, "fcm")


def test_a_sibling_begins_with_no_attempts() -> None:
    sibling_id = uuid7()
    original = aimed(2).names
    assert original is not None

    sibling = aim_at(original, LEASE, (), PHONE, sibling_id)

    assert (sibling.id, sibling.attempts, sibling.decisions) == (sibling_id, 0, None)


def test_a_sent_delivery_keeps_the_name_its_provider_gave_it() -> None:
    settled = judge(Sent("m-1"))

    assert isinstance(settled, SentDelivery)
    assert (settled.lease, settled.provider, settled.message_id) == (LEASE, "fcm", "m-1")


@pytest.mark.parametrize(
    ("attempts", "state", "wait"),
    [
        (0, State.RETRYING, SECOND),
        (1, State.RETRYING, 10 * SECOND),
        (2, State.DEAD, None),
        (7, State.DEAD, None),
    ],
)
def test_a_retry_spends_an_attempt_until_the_policy_has_no_more(
    attempts: int, state: State, wait: timedelta | None
) -> None:
    settled = unsent(Retry("UNAVAILABLE", "busy"), attempts)

    assert (settled.state, settled.spent) == (state, 1)
    assert settled.due_at == (NOW + wait if wait else None)
    assert (settled.outcome, settled.code, settled.detail) == ("retry", "UNAVAILABLE", "busy")


def test_a_provider_may_ask_for_more_time_than_the_backoff_but_not_for_less() -> None:
    assert unsent(Retry("c", after=60 * SECOND)).due_at == NOW + 60 * SECOND
    assert unsent(Retry("c", after=timedelta(milliseconds=1))).due_at == NOW + SECOND


@pytest.mark.parametrize(
    ("attempts", "state"), [(0, State.SCHEDULED), (1, State.RETRYING), (99, State.RETRYING)]
)
def test_a_deferral_spends_no_attempt(attempts: int, state: State) -> None:
    settled = unsent(Defer("QUOTA_EXCEEDED", 60 * SECOND), attempts)

    assert (settled.state, settled.spent, settled.retire) == (state, 0, None)


@given(randoms)
def test_deferred_deliveries_come_back_spread_out_and_never_early(random: float) -> None:
    due_at = unsent(Defer("c", 60 * SECOND), random=random).due_at

    assert due_at is not None
    assert NOW + 60 * SECOND <= due_at <= NOW + 66 * SECOND


def test_a_device_is_retired_when_gone_or_quarantined_and_never_else() -> None:
    assert unsent(Gone("UNREGISTERED")).retire == "gone: UNREGISTERED"
    assert unsent(Rejected("SENDER_ID_MISMATCH", quarantine=True)).retire == "quarantined: SENDER_ID_MISMATCH"
    for outcome in (Rejected("c"), Retry("c"), Defer("c", SECOND)):
        assert unsent(outcome).retire is None


@pytest.mark.parametrize(("outcome", "state"), [(Gone("c"), State.GONE), (Rejected("c"), State.REJECTED)])
def test_a_final_answer_spends_its_attempt(outcome: Outcome, state: State) -> None:
    settled = unsent(outcome)

    assert (settled.state, settled.spent, settled.tried_at) == (state, 1, TRIED)


def test_a_delivery_whose_workers_died_tells_so() -> None:
    settled = buried(aimed(5, rescued=True), NOW)

    assert (settled.state, settled.code, settled.outcome) == (State.DEAD, LEASE_EXPIRED, "retry")


def test_a_skipped_delivery_has_its_reason_and_no_attempt() -> None:
    settled = skipped(aimed(), Reason.NO_DEVICE, NOW)

    assert (settled.state, settled.reason, settled.outcome) == (State.SKIPPED, Reason.NO_DEVICE, None)
