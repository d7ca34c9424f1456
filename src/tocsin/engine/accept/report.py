"""Counts and logs what became of intents: accepted, duplicate or refused, and skipped at once."""

from collections.abc import Iterable, Sequence

import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.domain.delivery.states import State
from tocsin.domain.intent import Intent
from tocsin.domain.people.organisations import NOT_YOURS
from tocsin.domain.people.recipient import logged_route_id, recipient_of
from tocsin.domain.plan import PlannedDelivery
from tocsin.engine.accept.answers import INVALID, Accepted, Answer, Conflict, Duplicate, Invalid, Unreadable
from tocsin.engine.health.activity import activity
from tocsin.logs import sent_lines
from tocsin.store.notifications import NewNotification, NotificationRow
from tocsin.telemetry import metrics
from tocsin.telemetry.instruments import OTHER

CONFLICT = "idempotency_conflict"
INVALID_PAYLOAD = "invalid_payload"
REFUSALS = (Invalid, Conflict)
_REFUSAL_TYPES = frozenset(REFUSALS)

_CAUSES = {
    "unknown_type": "unknown_type",
    "unknown_version": "unknown_type",
    "audience_not_allowed": "audience_not_allowed",
    NOT_YOURS: NOT_YOURS,
}
"""The codes of refusals for faults that are a cause of their own."""
_PAYLOADS = frozenset({"payload", "payload_json"})

_log = structlog.stdlib.get_logger(__name__)


def report_answers(
    producer: str,
    source: str,
    intents: Sequence[Intent | Unreadable],
    answers: Sequence[Answer | None],
    accepted: Sequence[NewNotification],
    catalog: Catalog,
) -> None:
    """Report the intents of a request by their answers, and the notifications that were accepted of them."""
    if metrics.switch.on:
        _count(source, intents, answers, catalog)
    if accepted:
        activity.add("accepted", len(accepted))
    for notification in accepted:
        report_planned(notification, notification.deliveries)
    if has_refusals(answers):
        for intent, answer in zip(intents, answers, strict=True):
            if isinstance(answer, REFUSALS):
                code = refusal_code(intent, answer)
                _log.info("intent refused", producer=producer, type=storable(intent.type), code=code)
    _log.debug("intents accepted", producer=producer, intents=len(intents))


def has_refusals(answers: Iterable[Answer | None]) -> bool:
    """Return whether there is a refusal among answers."""
    return not _REFUSAL_TYPES.isdisjoint(map(type, answers))


def refusal_code(intent: Intent | Unreadable, answer: Conflict | Invalid) -> str:
    """Return the code of a refusal: why, as far as all of its faults have one cause."""
    if isinstance(answer, Conflict):
        return CONFLICT
    if isinstance(intent, Unreadable) and intent.code != INVALID:
        return intent.code
    causes = {_CAUSES.get(fault.code) or _cause_in(fault.field) for fault in answer.errors}
    return causes.pop() if len(causes) == 1 else INVALID


def _cause_in(field: str) -> str:
    is_payload = field in _PAYLOADS or field.startswith("payload.")
    return INVALID_PAYLOAD if is_payload else INVALID


def storable(text: str | None) -> str | None:
    """Return a text of a producer's as it can be stored and logged: short, and without what is no text."""
    return text[:200].replace("\x00", "\ufffd").encode(errors="replace").decode() if text else None


def _count(
    source: str, intents: Sequence[Intent | Unreadable], answers: Sequence[Answer | None], catalog: Catalog
) -> None:
    for intent, answer in zip(intents, answers, strict=True):
        match answer:
            case Accepted():
                metrics.accepted.add((intent.type or "", source))
            case Duplicate():
                metrics.duplicates.add((intent.type or "", source))
            case Conflict() | Invalid():
                # What a producer calls a type is not a label, unless the catalog has it.
                known = intent.type if intent.type and catalog.find(intent.type) else OTHER
                metrics.refused.add((known, source, refusal_code(intent, answer)))


def report_planned(
    notification: NewNotification | NotificationRow, deliveries: Sequence[PlannedDelivery]
) -> None:
    """Count the deliveries of an accepted notification; those skipped at once are settled, and logged so."""
    for delivery in deliveries:
        if metrics.switch.on:
            metrics.planned.add((notification.type, delivery.channel))
        if delivery.state is not State.SKIPPED:
            continue
        activity.add("skipped")
        reason = str(delivery.reason or "")
        if metrics.switch.on:
            metrics.settled.add((notification.type, delivery.channel, "", State.SKIPPED, reason))
        if sent_lines.take():
            recipient = recipient_of(delivery.user_id, delivery.address, notification.type)
            _log.info(
                "delivery settled",
                notification_id=str(notification.id),
                type=notification.type,
                producer=notification.producer,
                delivery_id=str(delivery.id),
                route_id=logged_route_id(delivery.channel, recipient),
                channel=delivery.channel,
                request_id=notification.request_id,
                trace_id=notification.trace_id,
                state=State.SKIPPED,
                reason=reason,
                left_out=sent_lines.left_out(),
            )
