"""Checks intents against the catalog and plans their deliveries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import rfc8785

from tocsin.catalog.catalog import Catalog, UnknownTypeError
from tocsin.domain.catalog import NotificationType, variable_form
from tocsin.domain.delivery.settings import LARGEST_AUDIENCE_BY_ATTRIBUTES
from tocsin.domain.digest import digest_group
from tocsin.domain.faults import Fault
from tocsin.domain.fingerprint import intent_fingerprint
from tocsin.domain.ids import new_notification_id
from tocsin.domain.intent import (
    Audience,
    Intent,
    audience_faults,
    audience_kind,
    locale_faults,
    recipients,
)
from tocsin.domain.people.locale import normalize
from tocsin.domain.people.recipient import UserRecipient
from tocsin.domain.plan import Conditions, PlannedDelivery, due_time, iter_plan, plan
from tocsin.domain.timing.moments import moment_faults, send_time_faults
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.broadcasts.broadcasts import NewBroadcast
from tocsin.store.broadcasts.members import Members
from tocsin.store.notifications import NewNotification

LARGEST_PAYLOAD = 65_536
DEEPEST_PAYLOAD = 64

_encoder = msgspec.json.Encoder()


class Planner(msgspec.Struct, frozen=True):
    """Turns intents into notifications by the catalog, the providers of each channel and the toggles."""

    catalog: Catalog
    providers: Mapping[str, Sequence[str]]
    admins: Mapping[str, Sequence[str]]
    toggles: Toggles
    largest_audience: int = LARGEST_AUDIENCE_BY_ATTRIBUTES

    def check(self, producer: str, intent: Intent, now: datetime) -> NewNotification | list[Fault]:
        """Build the notification of an intent, or list everything that is wrong with it.

        That of an audience that is a query has no deliveries yet: see `plan_people`.
        """
        try:
            payload = _encoder.encode(intent.payload)
        except UnicodeEncodeError:
            return [Fault(field="payload", code="not_text", message="holds half of a surrogate pair")]
        if _is_too_deep(intent.payload, payload):
            message = f"is nested more than {DEEPEST_PAYLOAD} levels deep"
            return [Fault(field="payload", code="too_deep", message=message)]
        faults = audience_faults(intent.audience) + _size_faults(payload) + _time_faults(intent, now)
        faults += locale_faults(intent.locale)
        faults += self.catalog.faults(intent.type, intent.version, intent.payload)
        notification_type = self.catalog.find(intent.type, intent.version)
        if notification_type is not None and notification_type.audiences is not None:
            faults += _kind_faults(notification_type, notification_type.audiences, intent.audience)
        if faults or notification_type is None:
            return faults
        try:
            fingerprint = intent_fingerprint(intent)
        except rfc8785.CanonicalizationError as error:
            return [Fault(field="payload", code="not_canonical", message=f"has no canonical form: {error}")]
        return self._notification(producer, intent, notification_type, payload, fingerprint, now)

    def plan_people(self, intent: Intent, people: Iterable[str], now: datetime) -> Iterator[PlannedDelivery]:
        """Plan, one by one, the deliveries to people whom the audience of an intent finds.

        The type is looked up at once: the catalog may be reloaded while the iterator is used.
        """
        notification_type = self.catalog.find(intent.type, intent.version)
        if notification_type is None:
            raise UnknownTypeError(intent.type, intent.version)
        conditions = self._conditions(intent, notification_type, now)
        return iter_plan(notification_type, map(UserRecipient, people), conditions=conditions)

    def broadcast(self, intent: Intent, members: Members, now: datetime) -> NewBroadcast:
        """Build the broadcast of an intent to many people; it starts when their deliveries are due."""
        starts_at = due_time(intent.send_at, intent.send_at_local, now)
        return NewBroadcast(starts_at=starts_at, segment_id=members.segment_id)

    def delivery_count(self, intent: Intent) -> int:
        """Count the deliveries that an intent has at most; one of an unknown type has none.

        Whom an audience by attributes finds is not known yet: it counts as the largest. Everyone and a
        segment count as nobody, since their deliveries are not stored with the request.
        """
        notification_type = self.catalog.find(intent.type, intent.version)
        if notification_type is None:
            return 0
        if intent.audience.attributes is not None:
            return self.largest_audience * len(notification_type.channels)
        return len(recipients(intent, self._admins(intent))) * len(notification_type.channels)

    def _notification(
        self,
        producer: str,
        intent: Intent,
        notification_type: NotificationType,
        payload: bytes,
        fingerprint: bytes,
        now: datetime,
    ) -> NewNotification:
        whom = recipients(intent, self._admins(intent))
        ttl = intent.ttl_seconds or notification_type.policies.ttl_seconds
        conditions = self._conditions(intent, notification_type, now)
        return NewNotification(
            id=new_notification_id(),
            producer=producer,
            idempotency_key=intent.idempotency_key,
            fingerprint=fingerprint,
            type=notification_type.name,
            version=notification_type.version,
            audience=_encoder.encode(intent.audience),
            payload=payload,
            collapse_key=intent.collapse_key,
            request_id=intent.request_id,
            trace_id=intent.trace_id,
            occurred_at=intent.occurred_at,
            locale=normalize(intent.locale) if intent.locale else None,
            org_id=intent.org_id,
            send_at=intent.send_at,
            send_at_local=intent.send_at_local,
            expires_at=conditions.due_at + timedelta(seconds=ttl) if ttl else None,
            accepted_at=now,
            deliveries=plan(notification_type, whom, conditions=conditions),
        )

    def _admins(self, intent: Intent) -> Sequence[str]:
        """Return the administrators of an intent's type, if the intent is for them."""
        if intent.audience.admins is None:
            return ()
        own = self.admins.get(intent.type)
        return self.admins.get(variable_form(intent.type), ()) if own is None else own

    def _conditions(self, intent: Intent, notification_type: NotificationType, now: datetime) -> Conditions:
        starts = due_time(intent.send_at, intent.send_at_local, now)
        group = None
        is_timed = intent.send_at_local is not None or starts > now
        if notification_type.policies.digest is not None and not is_timed:
            starts += notification_type.policies.digest.window
            group = digest_group(*self.catalog.resolve(intent.type, intent.version, intent.payload))
        audiences = notification_type.audiences
        return Conditions(
            providers=self.providers,
            channels=None if audiences is None else audiences[audience_kind(intent.audience)],
            off=self.off(notification_type),
            due_at=starts,
            now=now,
            collapse_key=self._collapse_key(intent, notification_type),
            digest_group=group,
        )

    def _collapse_key(self, intent: Intent, notification_type: NotificationType) -> str | None:
        """Return the key of a message; where payloads choose the category, it is one within that category."""
        if intent.collapse_key is None or notification_type.category_field is None:
            return intent.collapse_key
        resolved, _ = self.catalog.resolve(intent.type, intent.version, intent.payload)
        return f"{resolved.category}:{intent.collapse_key}"

    def off(self, notification_type: NotificationType) -> frozenset[str]:
        """List the channels of a type that are switched off."""
        return frozenset(
            channel
            for channel in notification_type.channels
            if not self.toggles.is_on(notification_type.name, channel)
        )


def _kind_faults(
    notification_type: NotificationType, audiences: Mapping[str, Sequence[str]], audience: Audience
) -> list[Fault]:
    """List the kind of an audience if its type is not for it."""
    if audience_faults(audience) or (kind := audience_kind(audience)) in audiences:
        return []
    message = f"{notification_type.name} is not for {kind}; it is for: {', '.join(audiences)}"
    return [Fault(field="audience", code="audience_not_allowed", message=message)]


def _size_faults(payload: bytes) -> list[Fault]:
    if len(payload) > LARGEST_PAYLOAD:
        return [
            Fault(
                field="payload",
                code="too_large",
                message=f"is {len(payload)} bytes as JSON; at most {LARGEST_PAYLOAD} are taken",
            )
        ]
    if b"\\u0000" in payload and _holds_nul(msgspec.json.decode(payload)):
        return [Fault(field="payload", code="nul_character", message="holds a NUL character")]
    return []


def _holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\x00" in value
        case dict():
            return any(_holds_nul(key) or _holds_nul(item) for key, item in value.items())
        case list():
            return any(map(_holds_nul, value))
        case _:
            return False


def _is_too_deep(value: Any, encoded: bytes) -> bool:
    """Return whether a payload is nested too deep for the code that walks it."""
    if encoded.count(b"{") + encoded.count(b"[") <= DEEPEST_PAYLOAD:
        return False
    level = [value]
    for _ in range(DEEPEST_PAYLOAD):
        level = [inner for outer in level for inner in _parts(outer)]
    return any(isinstance(inner, dict | list) for inner in level)


def _parts(value: Any) -> Iterable[Any]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
        case _:
            return ()


def _time_faults(intent: Intent, now: datetime) -> list[Fault]:
    if intent.occurred_at is None and intent.send_at is None and intent.send_at_local is None:
        return []
    local = intent.send_at_local.replace(tzinfo=UTC) if intent.send_at_local else None
    faults = moment_faults("occurred_at", intent.occurred_at) if intent.occurred_at else []
    for field, moment in (("send_at", intent.send_at), ("send_at_local", local)):
        if moment:
            faults += send_time_faults(field, moment, now)
    if intent.send_at and local:
        message = "cannot be given together with send_at: it is one or the other"
        faults.append(Fault(field="send_at_local", code="contradiction", message=message))
    return faults
