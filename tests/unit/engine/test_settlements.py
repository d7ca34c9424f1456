from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.unit.engine.attempts import LEASE, NOW, PHONE, SECOND, STEP, THREE, TRIED, an_attempt
from tocsin.domain.catalog import Failover, Policies
from tocsin.domain.decide import Cancel, Expire, Hold, Refusal, Skip, Step, Wait
from tocsin.domain.delivery.backoff import Exponential, Ladder
from tocsin.domain.delivery.held_by import HeldByDigest, HeldByHost, HeldByOrder, HeldByToggle
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import CLAIMED, TRANSITIONS, State
from tocsin.domain.people.profile import Destination
from tocsin.domain.toggles import TypeToggle
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.settle.settlements import (
    LEASE_EXPIRED,
    settle_dead,
    settle_empty_digest,
    settle_outcome,
    settle_refusal,
    settle_untried,
)
from tocsin.store.deliveries.context import Deferral
from tocsin.store.deliveries.settle import SentDelivery, Settlement, UnsentDelivery

MAILBOX = Destination(None, "Ada@Example.org", "smtp", "email")
DIGEST = UUID(int=8)

waits = st.timedeltas(min_value=timedelta(), max_value=timedelta(days=1))
words = st.text(max_size=700)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Sent, st.none() | words),
    st.builds(Retry, words, words, st.none() | waits),
    st.builds(Defer, words, waits, words, st.booleans(), st.booleans()),
    st.builds(Rejected, words, words, st.booleans()),
    st.builds(Gone, words, words, st.none() | st.just(TRIED) | st.just(NOW - timedelta(days=1))),
)
policies = st.builds(
    Policies,
    attempts=st.dictionaries(st.just("push"), st.integers(1, 10)),
    backoff=st.just(Exponential(SECOND, 60 * SECOND)) | st.just(Ladder((SECOND,))),
)
randoms = st.floats(0, 1, exclude_max=True)


def judge(
    outcome: Outcome, attempts: int = 0, policies: Policies = THREE, random: float = 0.5, **changes: Any
) -> Settlement:
    return settle_outcome(an_attempt(attempts, policies, **changes), outcome, now=NOW, random=random)


def unsent(outcome: Outcome, attempts: int = 0, random: float = 0.5, **changes: Any) -> UnsentDelivery:
    settled = judge(outcome, attempts, random=random, **changes)
    assert isinstance(settled, UnsentDelivery)
    return settled


def stored_steps(settled: Settlement) -> list[Step]:
    if isinstance(settled, SentDelivery) and settled.decided is not None:
        assert settled.decisions is None
        steps, at = settled.decided.set.steps, settled.decided.at
        return [Step(**step, at=at) for step in msgspec.json.decode(steps)]
    return msgspec.json.decode(settled.decisions or "[]", type=list[Step])


@given(outcomes, st.integers(0, 12), st.sampled_from(sorted(CLAIMED)), policies, randoms)
def test_every_settlement_is_a_legal_transition(
    outcome: Outcome, attempts: int, state: State, policies: Policies, random: float
) -> None:
    # Any state under lease comes with any number of attempts: a deferral spends none, a lost lease does.
    settled = judge(outcome, attempts, policies, random, retrying=state is State.RETRYING)
    target = State.SENT if isinstance(settled, SentDelivery) else settled.state

    assert target in TRANSITIONS[state]


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


REFUSALS: list[tuple[Refusal, State, str | None]] = [
    (Expire(()), State.EXPIRED, None),
    (Cancel(()), State.CANCELLED, None),
    (Skip((), Reason.OPTED_OUT), State.SKIPPED, "opted_out"),
    (Skip((), Reason.COLLAPSED), State.SKIPPED, "collapsed"),
    (Skip((), Reason.NO_DEVICE), State.SKIPPED, "no_device"),
]


@pytest.mark.parametrize("attempts", [0, 1])
@pytest.mark.parametrize("state", sorted(CLAIMED))
def test_what_is_settled_untried_is_a_legal_transition_and_spends_no_attempt(
    state: State, attempts: int
) -> None:
    def claimed() -> Attempt:
        return an_attempt(attempts, retrying=state is State.RETRYING)

    settlements = [
        *(settle_refusal(claimed(), refusal, NOW) for refusal, *_ in REFUSALS),
        settle_refusal(claimed(), Hold((), HeldByOrder()), NOW),
        settle_refusal(claimed(), Wait((), NOW + SECOND), NOW),
        settle_untried(claimed(), NOW),
        settle_empty_digest(claimed(), NOW),
        settle_dead(claimed(), NOW),
    ]

    for settled in settlements:
        assert settled.state is state or settled.state in TRANSITIONS[state]
        assert settled.spent == 0


@pytest.mark.parametrize(("refusal", "state", "reason"), REFUSALS)
def test_an_end_is_a_state_of_its_own_or_a_skip_with_its_reason(
    refusal: Refusal, state: State, reason: str | None
) -> None:
    settled = settle_refusal(an_attempt(), refusal, NOW)

    assert (settled.state, settled.reason, settled.outcome, settled.due_at) == (state, reason, None, None)
    assert (settled.held_by, settled.device_id, settled.provider, settled.code) == (None, None, None, None)


@pytest.mark.parametrize(("retrying", "state"), [(False, State.SCHEDULED), (True, State.RETRYING)])
@pytest.mark.parametrize(
    ("refusal", "due_at", "held_by"),
    [
        (Wait((), NOW + SECOND), NOW + SECOND, None),
        (Hold((), HeldByToggle(TypeToggle("t"))), None, "type:t"),
        (Hold((), HeldByOrder()), None, "order"),
        (Hold((), HeldByDigest()), None, "digest"),
        (Hold((), HeldByHost("webhook/shop.example")), None, "host:webhook/shop.example"),
    ],
)
def test_what_is_held_waits_for_its_time_or_for_its_holder(
    refusal: Refusal, due_at: datetime | None, held_by: str | None, *, retrying: bool, state: State
) -> None:
    settled = settle_refusal(an_attempt(retrying=retrying), refusal, NOW)

    assert (settled.state, settled.due_at, settled.held_by) == (state, due_at, held_by)
    assert (settled.outcome, settled.device_id) == (None, None)
    assert stored_steps(settled) == [STEP]


@pytest.mark.parametrize(("retrying", "state"), [(False, State.PENDING), (True, State.RETRYING)])
def test_what_was_not_tried_is_due_again_at_once_and_leaves_no_decision(
    *, retrying: bool, state: State
) -> None:
    settled = settle_untried(an_attempt(retrying=retrying), NOW)

    assert (settled.state, settled.due_at, settled.held_by) == (state, NOW, None)
    # It is decided again when it is claimed next.
    assert (settled.decisions, settled.outcome, settled.code) == (None, None, None)


def test_a_digest_without_members_is_cancelled_and_records_why() -> None:
    settled = settle_empty_digest(an_attempt(digest_id=DIGEST), NOW)

    assert (settled.state, settled.reason, settled.digest_id) == (State.CANCELLED, None, DIGEST)
    assert stored_steps(settled) == [
        STEP,
        Step(rule="digest", result="skip", detail="no member is left to send", at=NOW),
    ]


@given(outcomes)
def test_every_settlement_records_how_it_was_decided_and_for_which_device(outcome: Outcome) -> None:
    settled = judge(outcome)

    assert stored_steps(settled) == [STEP]
    assert (settled.lease, settled.device_id, settled.provider) == (LEASE, PHONE.id, "fcm")


@given(outcome=outcomes, reserved=st.booleans())
def test_every_settlement_keeps_its_digest_and_its_place_within_the_limits(
    outcome: Outcome, *, reserved: bool
) -> None:
    settled = judge(outcome, digest_id=DIGEST, reserved=reserved)

    assert settled.digest_id == DIGEST
    if isinstance(settled, UnsentDelivery):
        assert settled.reserved == reserved


def test_a_sent_delivery_keeps_the_id_its_provider_returned_and_when_to_ask_for_its_receipt() -> None:
    settled = settle_outcome(an_attempt(), Sent("m-1"), now=NOW, random=0.5, ask_at=NOW + SECOND)

    assert isinstance(settled, SentDelivery)
    assert (settled.lease, settled.provider, settled.message_id) == (LEASE, "fcm", "m-1")
    assert (settled.ask_at, settled.device_id) == (NOW + SECOND, PHONE.id)


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

    assert (settled.state, settled.spent, settled.tried_at) == (state, 1, TRIED)
    assert settled.due_at == (NOW + wait if wait else None)
    assert (settled.outcome, settled.code, settled.detail) == ("retry", "UNAVAILABLE", "busy")


def test_a_type_that_is_not_in_the_catalog_any_more_is_retried_by_the_default_policies() -> None:
    last = Policies().attempts_for("push") - 1

    assert unsent(Retry("c"), last - 1, type=None).state is State.RETRYING
    assert unsent(Retry("c"), last, type=None).state is State.DEAD


def test_a_provider_may_ask_for_more_time_than_the_backoff_but_not_for_less() -> None:
    assert unsent(Retry("c", after=60 * SECOND)).due_at == NOW + 60 * SECOND
    assert unsent(Retry("c", after=timedelta(milliseconds=1))).due_at == NOW + SECOND


@pytest.mark.parametrize("attempts", [0, 1, 99])
def test_a_deferral_spends_no_attempt(attempts: int) -> None:
    settled = unsent(Defer("QUOTA_EXCEEDED", 60 * SECOND), attempts)

    assert (settled.state, settled.spent, settled.retire) == (State.RETRYING, 0, None)
    assert (settled.outcome, settled.code, settled.tried_at) == ("defer", "QUOTA_EXCEEDED", NOW)


def made(ago: timedelta) -> UUID:
    """Return the id of a delivery that was made some time before NOW."""
    return UUID(int=int((NOW - ago).timestamp() * 1_000) << 80 | 0x7 << 76 | 0x2 << 62)


def deferred(ago: timedelta, code: str = "forbidden") -> Deferral:
    """Build the deferral of a delivery that began some time before NOW."""
    return Deferral(code=code, since=NOW - ago)


@pytest.mark.parametrize(
    ("deferral", "pauses", "spent"),
    [
        (None, False, 0),
        (deferred(timedelta(hours=23)), False, 0),
        (deferred(timedelta(hours=25)), False, 1),
        (deferred(timedelta(hours=25), "quota"), False, 0),
        (deferred(timedelta(hours=25)), True, 0),
        (deferred(timedelta(days=20)), True, 0),
    ],
)
def test_a_deferral_about_one_device_spends_attempts_after_a_day(
    deferral: Deferral | None, spent: int, *, pauses: bool
) -> None:
    """However long ago it was accepted: it may have been scheduled for now."""
    old = made(timedelta(days=20))
    settled = unsent(Defer("forbidden", 60 * SECOND, pauses=pauses), 0, id=old, deferral=deferral)

    assert (settled.state, settled.spent, settled.code) == (State.RETRYING, spent, "forbidden")
    assert settled.due_at is not None
    assert settled.due_at >= NOW + 60 * SECOND


def test_a_deferral_about_one_device_ends_with_the_last_attempt() -> None:
    settled = unsent(Defer("forbidden", 60 * SECOND, pauses=False), 2, deferral=deferred(timedelta(days=2)))

    assert (settled.state, settled.outcome) == (State.DEAD, "retry")


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


def test_a_quarantined_device_raises_an_alarm() -> None:
    with capture_logs() as logs:
        unsent(Rejected("SENDER_ID_MISMATCH", quarantine=True))

    alarms = [log for log in logs if log.get("alarm")]
    assert [(log["event"], log["code"], log["log_level"]) for log in alarms] == [
        ("device quarantined", "SENDER_ID_MISMATCH", "error")
    ]


@pytest.mark.parametrize(
    ("since", "state"),
    [
        (None, State.GONE),
        (NOW - timedelta(minutes=30), State.GONE),
        (PHONE.last_seen_at, State.GONE),
        (NOW - timedelta(hours=2), State.RETRYING),
    ],
)
def test_a_device_that_registered_again_since_it_was_gone_is_tried_again(
    since: datetime | None, state: State
) -> None:
    settled = unsent(Gone("Unregistered", since=since))

    assert settled.state is state
    if state is State.GONE:
        assert (settled.code, settled.gone_since) == ("Unregistered", PHONE.last_seen_at)
    else:
        assert (settled.code, settled.retire, settled.gone_since) == ("registered_again", None, None)


def test_only_a_mailbox_that_is_gone_is_suppressed() -> None:
    mail: dict[str, Any] = {"channel": "email", "destination": MAILBOX}

    gone = unsent(Gone("5.1.1"), **mail)
    assert (gone.suppress, gone.provider, gone.device_id) == ("Ada@Example.org", "smtp", None)
    for outcome in (Rejected("c"), Retry("c"), Defer("c", SECOND)):
        assert unsent(outcome, **mail).suppress is None
    assert unsent(Gone("UNREGISTERED")).suppress is None


@pytest.mark.parametrize(("outcome", "state"), [(Gone("c"), State.GONE), (Rejected("c"), State.REJECTED)])
def test_a_final_answer_spends_its_attempt(outcome: Outcome, state: State) -> None:
    settled = unsent(outcome)

    assert (settled.state, settled.spent, settled.tried_at) == (state, 1, TRIED)


def test_a_delivery_whose_workers_died_records_it() -> None:
    settled = settle_dead(an_attempt(5, destination=None, tried_at=None), NOW)

    assert (settled.state, settled.code, settled.outcome) == (State.DEAD, LEASE_EXPIRED, "retry")
    assert (settled.spent, settled.tried_at, settled.device_id) == (0, NOW, None)


@pytest.mark.parametrize(
    ("settle", "event"),
    [
        (lambda attempt: settle_outcome(attempt, Retry("c", "d"), now=NOW, random=0.5), "attempt failed"),
        (lambda attempt: settle_refusal(attempt, Hold((), HeldByOrder()), NOW), "delivery not sent"),
    ],
)
def test_what_is_not_sent_is_logged_with_everything_that_names_it(settle: Any, event: str) -> None:
    attempt = an_attempt()
    with capture_logs() as logs:
        settled = settle(attempt)

    (log,) = logs
    assert (log["event"], log["delivery_id"]) == (event, str(attempt.id))
    assert attempt.log_fields().items() <= log.items()
    assert (log["state"], log["held_by"], log["code"]) == (settled.state, settled.held_by, settled.code)


def test_what_goes_on_waiting_is_compared_with_its_fallback() -> None:
    """The fallback may have been sent while this one was under lease, as a probe or in a queue."""
    policies = Policies(failover=Failover(to="email", after=timedelta(minutes=10)))

    waiting = settle_untried(an_attempt(policies=policies), NOW)
    held = settle_refusal(an_attempt(policies=policies), Hold((), HeldByOrder()), NOW)
    ended = settle_refusal(an_attempt(policies=policies), Cancel(()), NOW)

    assert (waiting.has_fallback, held.has_fallback, ended.has_fallback) == (True, True, False)
    assert not settle_untried(an_attempt(), NOW).has_fallback
