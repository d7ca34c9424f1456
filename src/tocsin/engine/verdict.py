"""What follows from an outcome: a settled delivery, or one that waits again."""

from datetime import datetime, timedelta
from typing import assert_never

from tocsin.domain.backoff import delay
from tocsin.domain.catalog import Policies
from tocsin.domain.delivery import State
from tocsin.domain.ids import LeaseId
from tocsin.domain.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.reasons import Reason
from tocsin.store.claims import ClaimedDelivery
from tocsin.store.deliveries import SentDelivery, UnsentDelivery

LONGEST_DETAIL = 500
LONGEST_CODE = 100
LEASE_EXPIRED = "lease_expired"


def settlement(
    claimed: ClaimedDelivery,
    lease: LeaseId,
    outcome: Outcome,
    *,
    provider: str | None,
    policies: Policies,
    tried_at: datetime,
    now: datetime,
    random: float,
) -> SentDelivery | UnsentDelivery:
    """Turn what an attempt came to into what is written down."""
    match outcome:
        case Sent(message_id=message_id):
            named = _storable(message_id, LONGEST_DETAIL) if message_id else None
            return SentDelivery(claimed.id, lease, provider or "", named)
        case Retry():
            return _try_again(claimed, lease, outcome, provider, policies, tried_at, now, random)
        case Defer(after=after):
            # A share of the wait is drawn at random, so that what was held back does not return at once.
            return _unsent(
                claimed,
                lease,
                outcome,
                provider,
                tried_at,
                state=State.RETRYING if claimed.attempts else State.SCHEDULED,
                spent=0,
                due_at=now + after + after * 0.1 * random,
            )
        case Rejected(code=code, quarantine=quarantine):
            retire = f"quarantined: {_storable(code, LONGEST_CODE)}" if quarantine else None
            return _unsent(
                claimed, lease, outcome, provider, tried_at, state=State.REJECTED, spent=1, retire=retire
            )
        case Gone(code=code):
            retire = f"gone: {_storable(code, LONGEST_CODE)}"
            return _unsent(
                claimed, lease, outcome, provider, tried_at, state=State.GONE, spent=1, retire=retire
            )
        case _:
            assert_never(outcome)


def skip(claimed: ClaimedDelivery, lease: LeaseId, reason: Reason, now: datetime) -> UnsentDelivery:
    """Decide not to send, and say why."""
    return _untried(claimed, lease, State.SKIPPED, reason, now)


def expire(claimed: ClaimedDelivery, lease: LeaseId, now: datetime) -> UnsentDelivery:
    """Let a delivery go whose time to live is over."""
    return _untried(claimed, lease, State.EXPIRED, None, now)


def bury(claimed: ClaimedDelivery, lease: LeaseId, now: datetime) -> UnsentDelivery:
    """Give up a delivery whose worker died in each of its attempts."""
    lost = Retry(LEASE_EXPIRED, "a worker died while it held this delivery")
    return _unsent(claimed, lease, lost, None, now, state=State.DEAD, spent=0)


def _try_again(
    claimed: ClaimedDelivery,
    lease: LeaseId,
    outcome: Retry,
    provider: str | None,
    policies: Policies,
    tried_at: datetime,
    now: datetime,
    random: float,
) -> UnsentDelivery:
    attempt = claimed.attempts + 1
    if attempt >= policies.attempts_for(claimed.channel):
        return _unsent(claimed, lease, outcome, provider, tried_at, state=State.DEAD, spent=1)
    wait = max(delay(policies.backoff, attempt, random), outcome.after or timedelta())
    return _unsent(
        claimed, lease, outcome, provider, tried_at, state=State.RETRYING, spent=1, due_at=now + wait
    )


def _unsent(
    claimed: ClaimedDelivery,
    lease: LeaseId,
    outcome: Retry | Defer | Rejected | Gone,
    provider: str | None,
    tried_at: datetime,
    *,
    state: State,
    spent: int,
    due_at: datetime | None = None,
    retire: str | None = None,
) -> UnsentDelivery:
    return UnsentDelivery(
        id=claimed.id,
        lease=lease,
        state=state,
        reason=None,
        spent=spent,
        due_at=due_at,
        provider=provider,
        outcome=str(outcome.__struct_config__.tag),
        code=_storable(outcome.code, LONGEST_CODE),
        detail=_storable(outcome.detail, LONGEST_DETAIL),
        retire=retire,
        tried_at=tried_at,
    )


def _untried(
    claimed: ClaimedDelivery, lease: LeaseId, state: State, reason: Reason | None, now: datetime
) -> UnsentDelivery:
    return UnsentDelivery(
        id=claimed.id,
        lease=lease,
        state=state,
        reason=reason,
        spent=0,
        due_at=None,
        provider=None,
        outcome=None,
        code=None,
        detail=None,
        retire=None,
        tried_at=now,
    )


def _storable(text: str, longest: int) -> str:
    """Make a provider's words fit to be stored: one answer must not hold up the settling of others."""
    return text[:longest].replace("\x00", "\ufffd").encode(errors="replace").decode()
