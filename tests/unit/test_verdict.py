from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.backoff import Exponential, Ladder
from tocsin.domain.catalog import Policies
from tocsin.domain.delivery import CLAIMED, State, may_become
from tocsin.domain.ids import LeaseId, uuid7
from tocsin.domain.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.reasons import Reason
from tocsin.engine.verdict import LEASE_EXPIRED, bury, expire, settlement, skip
from tocsin.store.claims import ClaimedDelivery
from tocsin.store.deliveries import SentDelivery, UnsentDelivery

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


def claimed(attempts: int = 0, *, rescued: bool = False) -> ClaimedDelivery:
    return ClaimedDelivery(
        id=uuid7(),
        notification_id=uuid7(),
        channel="push",
        due_at=NOW,
        attempts=attempts,
        rescued=rescued,
        user_id="ada",
        address=None,
        device_id=uuid7(),
        token="token",
        provider="fcm",
        platform="android",
        locale=None,
        type="t",
        version=1,
        payload="{}",
        collapse_key=None,
        expires_at=None,
        producer="p",
        request_id=None,
        trace_id=None,
    )


def judge(
    outcome: Outcome, attempts: int = 0, policies: Policies = THREE, random: float = 0.5
) -> SentDelivery | UnsentDelivery:
    return settlement(
        claimed(attempts),
        LEASE,
        outcome,
        provider="fcm",
        policies=policies,
        tried_at=TRIED,
        now=NOW,
        random=random,
    )


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


@pytest.mark.parametrize(
    ("state", "target"), [(s, t) for s in sorted(CLAIMED) for t in ("skip", "expire", "bury")]
)
def test_what_is_settled_untried_is_a_legal_transition(state: State, target: str) -> None:
    delivery = claimed(1, rescued=True)
    settled = {
        "skip": skip(delivery, LEASE, Reason.NO_DEVICE, NOW),
        "expire": expire(delivery, LEASE, NOW),
        "bury": bury(delivery, LEASE, NOW),
    }[target]

    assert may_become(state, settled.state)
    assert settled.spent == 0


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
    settled = bury(claimed(5, rescued=True), LEASE, NOW)

    assert (settled.state, settled.code, settled.outcome) == (State.DEAD, LEASE_EXPIRED, "retry")


def test_a_skipped_delivery_has_its_reason_and_no_attempt() -> None:
    settled = skip(claimed(), LEASE, Reason.NO_DEVICE, NOW)

    assert (settled.state, settled.reason, settled.outcome) == (State.SKIPPED, Reason.NO_DEVICE, None)
