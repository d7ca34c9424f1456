"""Turns outcomes and verdicts into what is written about a delivery."""

import traceback
from datetime import datetime, timedelta
from typing import assert_never
from uuid import uuid4

import msgspec
import structlog

from tocsin.domain.catalog import NO_POLICIES
from tocsin.domain.decide import Cancel, Expire, Hold, Refusal, Skip, Step, Wait
from tocsin.domain.delivery.backoff import delay
from tocsin.domain.delivery.decision_sets import shared_decisions
from tocsin.domain.delivery.held_by import stored_held_by
from tocsin.domain.delivery.outcome import Defer, Gone, InboxContent, Outcome, Rejected, Retry, Sent
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.ids import uuid7
from tocsin.engine.dispatch.attempt import LeasedDelivery
from tocsin.engine.settle.report import INTERNAL_ERROR, report_rejected_by_bug, report_unsent
from tocsin.store.deliveries.settle import SentDelivery, Settlement, UnsentDelivery, encode_steps
from tocsin.store.inbox.items import NewItem

LONGEST_DETAIL = 500
LONGEST_DEFERRAL = timedelta(days=1)
"""How long a delivery may be deferred for the sake of its own device, while the provider goes on."""
LONGEST_CODE = 100
LEASE_EXPIRED = "lease_expired"
PROVIDER_FAILED = "provider_failed"
"""A bug in the code of a provider, which fails again with the same message."""

_encoder = msgspec.json.Encoder()
_log = structlog.stdlib.get_logger(__name__)


def settle_outcome(
    attempt: LeasedDelivery, outcome: Outcome, *, now: datetime, random: float, ask_at: datetime | None = None
) -> Settlement:
    """Settle an attempt by its outcome; `ask_at` is when to ask for a receipt of one that was sent."""
    match outcome:
        case Sent(message_id=message_id, item=item):
            destination = attempt.destination
            decided = shared_decisions(attempt.steps)
            return SentDelivery(
                id=attempt.id,
                lease=attempt.lease,
                provider=destination.provider if destination else "",
                message_id=_storable(message_id, LONGEST_DETAIL) if message_id else None,
                device_id=destination.id if destination else None,
                decisions=None if decided else encode_steps(attempt.steps),
                ask_at=ask_at,
                decided=decided,
                digest_id=attempt.digest_id,
                plain=attempt.plain,
                item=_inbox_item(attempt, item) if item else None,
                kind=(attempt.type.name, attempt.channel) if attempt.type else None,
            )
        case Retry():
            return _retry(attempt, outcome, now, random)
        case Defer(code=code, after=after, detail=detail, pauses=False) if _is_deferred_long(
            attempt, code, now
        ):
            late = Retry(code, detail, after, speaks_against="target")
            return _retry(attempt, late, now, random)
        case Defer(after=after):
            # A random share of the wait spreads out what was deferred together.
            due_at = _in_time(attempt, now + after + after * 0.1 * random)
            return _tried(attempt, outcome, State.RETRYING, now, spent=0, due_at=due_at)
        case Rejected(code=code, quarantine=quarantine):
            if quarantine:
                # A device of another sender means that an app or the settings name the wrong project.
                _log.error("device quarantined", **attempt.log_fields(), code=code, alarm=True)
            retire = f"quarantined: {_storable(code, LONGEST_CODE)}" if quarantine else None
            return _tried(attempt, outcome, State.REJECTED, now, retire=retire)
        case Gone(code=code, since=since):
            seen_at = attempt.destination.last_seen_at if attempt.destination else None
            if since is not None and seen_at is not None and seen_at > since:
                # The app registered the token again after that: the answer is about its earlier registration.
                again = Retry("registered_again", outcome.detail, speaks_against="target")
                return _retry(attempt, again, now, random)
            retire = f"gone: {_storable(code, LONGEST_CODE)}"
            return _tried(attempt, outcome, State.GONE, now, retire=retire, gone_since=since)
        case _:
            assert_never(outcome)


def settle_refusal(attempt: LeasedDelivery, refusal: Refusal, now: datetime) -> UnsentDelivery:
    """Settle an attempt that a rule or a limit stopped."""
    match refusal:
        case Wait(until=until):
            return _untried(attempt, _waiting(attempt), now, due_at=_in_time(attempt, until))
        case Hold(held_by=held_by):
            return _untried(attempt, _waiting(attempt), now, held_by=stored_held_by(held_by))
        case Skip(reason=reason):
            return _untried(attempt, State.SKIPPED, now, reason=reason)
        case Cancel(reason=reason):
            return _untried(attempt, State.CANCELLED, now, reason=reason)
        case Expire():
            return _untried(attempt, State.EXPIRED, now)
        case _:
            assert_never(refusal)


def settle_untried(attempt: LeasedDelivery, now: datetime) -> UnsentDelivery:
    """Release a delivery that was not tried: it is due again at once and no attempt is spent."""
    attempt.steps = ()
    return _untried(attempt, State.RETRYING if attempt.retrying else State.PENDING, now, due_at=now)


def settle_dead(attempt: LeasedDelivery, now: datetime) -> UnsentDelivery:
    """Make a dead letter of a delivery whose worker died in each of its attempts."""
    lost = Retry(LEASE_EXPIRED, "a worker died while it held this delivery")
    return _tried(attempt, lost, State.DEAD, now, spent=0)


def settle_empty_digest(attempt: LeasedDelivery, now: datetime) -> UnsentDelivery:
    """Cancel a digest whose members were all cancelled, expired or replaced."""
    attempt.add_step(Step(rule="digest", result="skip", detail="no member is left to send", at=now))
    return _untried(attempt, State.CANCELLED, now)


def report_internal_error(delivery: LeasedDelivery | Settlement, error: Exception) -> str:
    """Log a bug and where it was raised; return the detail to store, which has the same correlation id.

    Neither has the text of the exception, which may quote the payload or an address.
    """
    correlation_id, kind = uuid4().hex, type(error).__name__
    _log.error(
        "delivery failed",
        delivery_id=str(delivery.id),
        error=kind,
        correlation_id=correlation_id,
        raised_at="".join(traceback.format_tb(error.__traceback__)),
        alarm=True,
    )
    return f"{kind}; correlation id {correlation_id}"


def settle_internal_error(
    delivery: LeasedDelivery | Settlement, detail: str | None, now: datetime
) -> UnsentDelivery:
    """Reject a delivery for a bug, with nothing that could be at fault itself."""
    report_rejected_by_bug(delivery)
    return UnsentDelivery(
        id=delivery.id,
        lease=delivery.lease,
        state=State.REJECTED,
        spent=1,
        outcome="rejected",
        code=INTERNAL_ERROR,
        detail=detail or INTERNAL_ERROR,
        tried_at=now,
        digest_id=delivery.digest_id,
    )


def settle_sent_barely(delivery: LeasedDelivery | Settlement) -> SentDelivery:
    """Settle a delivery that its provider took, with nothing that could be at fault itself."""
    return SentDelivery(
        id=delivery.id, lease=delivery.lease, provider="", message_id=None, digest_id=delivery.digest_id
    )


def _inbox_item(attempt: LeasedDelivery, content: InboxContent) -> NewItem:
    """Build the item that is stored with a delivery to an inbox."""
    if attempt.type is None:
        raise RuntimeError("an attempt is decided before it is settled as sent")
    return NewItem(
        id=uuid7(),
        delivery_id=attempt.id,
        type=attempt.type.name,
        category=attempt.type.category,
        title=content.title,
        body=content.body,
        link=content.link,
        icon=content.icon,
        data=_encoder.encode(content.data).decode(),
    )


def _waiting(attempt: LeasedDelivery) -> State:
    return State.RETRYING if attempt.retrying else State.SCHEDULED


def _is_deferred_long(attempt: LeasedDelivery, code: str, now: datetime) -> bool:
    """Return whether a delivery was deferred for too long, with this code, to go on without an attempt."""
    deferral = attempt.deferral
    if deferral is None or deferral.code != _storable(code, LONGEST_CODE):
        return False
    return now - deferral.since > LONGEST_DEFERRAL


def _retry(attempt: LeasedDelivery, outcome: Retry, now: datetime, random: float) -> UnsentDelivery:
    policies = attempt.type.policies if attempt.type else NO_POLICIES
    number = attempt.attempts + 1
    least = outcome.after or timedelta()
    if number < policies.attempts_for(attempt.channel):
        wait = max(delay(policies.backoff, number, random), least)
        return _tried(attempt, outcome, State.RETRYING, now, due_at=_in_time(attempt, now + wait))
    every = policies.recovery_after(attempt.channel, number)
    if every is None or not _is_providers_fault(attempt, outcome):
        return _tried(attempt, outcome, State.DEAD, now)
    # A random share of the wait spreads out what failed in the same outage.
    due_at = _in_time(attempt, now + max(every * (1 + 0.1 * random), least))
    return _tried(attempt, outcome, State.RETRYING, now, due_at=due_at, recovering=True)


def _is_providers_fault(attempt: LeasedDelivery, outcome: Retry) -> bool:
    """Return whether the provider failed, not the message, its target, or an endpoint that somebody chose."""
    is_own = outcome.speaks_against == "target" or outcome.code == PROVIDER_FAILED
    return not is_own and attempt.channel != "webhook"


def _in_time(attempt: LeasedDelivery, due_at: datetime) -> datetime:
    """Return when a delivery is due again: when its time to live ends at the latest, to expire then."""
    return due_at if attempt.expires_at is None else min(due_at, attempt.expires_at)


def _tried(
    attempt: LeasedDelivery,
    outcome: Retry | Defer | Rejected | Gone,
    state: State,
    now: datetime,
    *,
    spent: int = 1,
    due_at: datetime | None = None,
    recovering: bool = False,
    retire: str | None = None,
    gone_since: datetime | None = None,
) -> UnsentDelivery:
    destination = attempt.destination
    if retire is not None and destination is not None and destination.last_seen_at is not None:
        # The answer is about the token as it was claimed: one that was registered since is another matter.
        gone_since = destination.last_seen_at
    is_gone_mailbox = state is State.GONE and attempt.channel == "email"
    settled = UnsentDelivery(
        id=attempt.id,
        lease=attempt.lease,
        state=state,
        spent=spent,
        due_at=due_at,
        recovering=recovering or _goes_on_recovering(attempt, state),
        provider=destination.provider if destination else None,
        device_id=destination.id if destination else None,
        outcome=str(outcome.__struct_config__.tag),
        code=_storable(outcome.code, LONGEST_CODE),
        detail=_storable(outcome.detail, LONGEST_DETAIL),
        retire=retire,
        gone_since=gone_since,
        suppress=destination.token if destination and is_gone_mailbox else None,
        tried_at=now if isinstance(outcome, Defer) else attempt.tried_at or now,
        decisions=encode_steps(attempt.steps),
        reserved=attempt.reserved,
        digest_id=attempt.digest_id,
        has_fallback=_has_fallback(attempt),
    )
    report_unsent(attempt, settled)
    return settled


def _untried(
    attempt: LeasedDelivery,
    state: State,
    now: datetime,
    *,
    reason: str | None = None,
    due_at: datetime | None = None,
    held_by: str | None = None,
) -> UnsentDelivery:
    settled = UnsentDelivery(
        id=attempt.id,
        lease=attempt.lease,
        state=state,
        reason=reason,
        due_at=due_at,
        held_by=held_by,
        recovering=_goes_on_recovering(attempt, state),
        tried_at=now,
        decisions=encode_steps(attempt.steps),
        reserved=attempt.reserved,
        digest_id=attempt.digest_id,
        has_fallback=state in WAITING and _has_fallback(attempt),
    )
    report_unsent(attempt, settled)
    return settled


def _has_fallback(attempt: LeasedDelivery) -> bool:
    return attempt.type is not None and attempt.type.policies.failover is not None


def _goes_on_recovering(attempt: LeasedDelivery, state: State) -> bool:
    return attempt.recovering and state in WAITING


def _storable(text: str, longest: int) -> str:
    """Return a provider's text as Postgres can store it: one answer must not block the settling of others."""
    if len(text) <= longest and text.isascii() and "\x00" not in text:
        return text
    return text[:longest].replace("\x00", "\ufffd").encode(errors="replace").decode()
