"""What follows from an outcome or a decision: a settled delivery, or one that waits again."""

from datetime import datetime, timedelta
from typing import assert_never

from tocsin.domain.catalog import Policies
from tocsin.domain.decide import Hold, Skip, Step
from tocsin.domain.delivery.backoff import delay
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import State
from tocsin.domain.toggles import toggle_of
from tocsin.engine.dispatch.attempt import Aim
from tocsin.store.deliveries.settle import SentDelivery, UnsentDelivery

LONGEST_DETAIL = 500
LONGEST_CODE = 100
CIRCUIT = "circuit:"
BUSY = "busy:"
LEASE_EXPIRED = "lease_expired"

_ENDS = {"cancelled": State.CANCELLED, "expired": State.EXPIRED}


def settlement(
    aim: Aim, outcome: Outcome, *, policies: Policies, tried_at: datetime, now: datetime, random: float
) -> SentDelivery | UnsentDelivery:
    """Turn what an attempt came to into what is written down."""
    match outcome:
        case Sent(message_id=message_id):
            named = _storable(message_id, LONGEST_DETAIL) if message_id else None
            return SentDelivery(
                id=aim.id,
                lease=aim.lease,
                provider=aim.provider or "",
                message_id=named,
                device_id=aim.device_id,
                decisions=aim.decisions,
            )
        case Retry():
            return _try_again(aim, outcome, policies, tried_at, now, random)
        case Defer(after=after):
            # A share of the wait is drawn at random, so that what was held back does not return at once.
            return _tried(
                aim, outcome, now, _waiting(aim), spent=0, due_at=now + after + after * 0.1 * random
            )
        case Rejected(code=code, quarantine=quarantine):
            retire = f"quarantined: {_storable(code, LONGEST_CODE)}" if quarantine else None
            return _tried(aim, outcome, tried_at, State.REJECTED, retire=retire)
        case Gone(code=code, since=since):
            if since is not None and aim.last_seen_at is not None and aim.last_seen_at > since:
                # The app registered the token again after that: the verdict is about an earlier life.
                again = Retry("registered_again", outcome.detail, speaks_against="target")
                return _try_again(aim, again, policies, tried_at, now, random)
            retire = f"gone: {_storable(code, LONGEST_CODE)}"
            mailbox = aim.names.mailbox if aim.names and aim.channel == "email" else None
            return _tried(
                aim, outcome, tried_at, State.GONE, retire=retire, gone_since=since, suppress=mailbox
            )
        case _:
            assert_never(outcome)


def held(aim: Aim, hold: Hold, now: datetime) -> UnsentDelivery:
    """Let a delivery wait for its time, or for whatever holds it."""
    return _untried(aim, now, _waiting(aim), due_at=hold.until, held_by=hold.held_by)


def paused(aim: Aim, provider: str, now: datetime) -> UnsentDelivery:
    """Let a delivery wait until its provider is switched on again."""
    toggle = toggle_of(provider)
    step = Step(rule="toggle", result="hold", detail=f"{toggle} is switched off", at=now)
    return held(aim.after(step), Hold((), held_by=toggle), now)


def kept_back(aim: Aim, circuit: str, why: str, now: datetime) -> UnsentDelivery:
    """Let a delivery wait until its provider is tried again."""
    step = Step(rule="provider", result="hold", detail=why, at=now)
    return held(aim.after(step), Hold((), held_by=f"{CIRCUIT}{circuit}"), now)


def turned_away(aim: Aim, provider: str, now: datetime) -> UnsentDelivery:
    """Let a delivery wait until there is room for it again on the way to its provider."""
    return held(aim, Hold((), held_by=f"{BUSY}{provider}"), now)


def handed_on(aim: Aim, now: datetime) -> UnsentDelivery:
    """Let another worker, or this one later, take a delivery that was not tried."""
    return _untried(aim, now, _waiting(aim), due_at=now)


def skipped(aim: Aim, reason: Reason | str, now: datetime) -> UnsentDelivery:
    """Decide not to send, and say why."""
    end = _ENDS.get(reason)
    return _untried(aim, now, end or State.SKIPPED, reason=None if end else reason)


def ended(aim: Aim, skip: Skip, now: datetime) -> UnsentDelivery:
    """Settle what a decision ended."""
    return skipped(aim, skip.reason, now)


def buried(aim: Aim, now: datetime) -> UnsentDelivery:
    """Give up a delivery whose worker died in each of its attempts."""
    lost = Retry(LEASE_EXPIRED, "a worker died while it held this delivery")
    return _tried(aim, lost, now, State.DEAD, spent=0)


def _waiting(aim: Aim) -> State:
    return State.RETRYING if aim.attempts else State.SCHEDULED


def _try_again(
    aim: Aim, outcome: Retry, policies: Policies, tried_at: datetime, now: datetime, random: float
) -> UnsentDelivery:
    attempt = aim.attempts + 1
    if attempt >= policies.attempts_for(aim.channel):
        return _tried(aim, outcome, tried_at, State.DEAD)
    wait = max(delay(policies.backoff, attempt, random), outcome.after or timedelta())
    return _tried(aim, outcome, tried_at, State.RETRYING, due_at=now + wait)


def _tried(
    aim: Aim,
    outcome: Retry | Defer | Rejected | Gone,
    tried_at: datetime,
    state: State,
    *,
    spent: int = 1,
    due_at: datetime | None = None,
    retire: str | None = None,
    gone_since: datetime | None = None,
    suppress: str | None = None,
) -> UnsentDelivery:
    return UnsentDelivery(
        id=aim.id,
        lease=aim.lease,
        state=state,
        spent=spent,
        due_at=due_at,
        provider=aim.provider,
        device_id=aim.device_id,
        outcome=str(outcome.__struct_config__.tag),
        code=_storable(outcome.code, LONGEST_CODE),
        detail=_storable(outcome.detail, LONGEST_DETAIL),
        retire=retire,
        gone_since=gone_since,
        suppress=suppress,
        tried_at=tried_at,
        decisions=aim.decisions,
        reserved=aim.reserved,
    )


def _untried(
    aim: Aim,
    now: datetime,
    state: State,
    *,
    reason: str | None = None,
    due_at: datetime | None = None,
    held_by: str | None = None,
) -> UnsentDelivery:
    return UnsentDelivery(
        id=aim.id,
        lease=aim.lease,
        state=state,
        reason=reason,
        due_at=due_at,
        held_by=held_by,
        tried_at=now,
        decisions=aim.decisions,
        reserved=aim.reserved,
    )


def _storable(text: str, longest: int) -> str:
    """Make a provider's words fit to be stored: one answer must not hold up the settling of others."""
    return text[:longest].replace("\x00", "\ufffd").encode(errors="replace").decode()
