"""Checking an intent against the catalog and turning it into a notification with its plan."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import rfc8785

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import NotificationType
from tocsin.domain.digest import collected_by
from tocsin.domain.faults import Fault
from tocsin.domain.fingerprint import intent_fingerprint
from tocsin.domain.ids import new_notification_id
from tocsin.domain.intent import Intent, audience_faults, recipients
from tocsin.domain.plan import Conditions, due_time, plan
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.notifications import NewNotification

FURTHEST_SEND_AT = timedelta(days=366)
LARGEST_PAYLOAD = 65_536
DEEPEST_PAYLOAD = 64
YEARS = range(1900, 9_999)

_encoder = msgspec.json.Encoder()


class Planner(msgspec.Struct, frozen=True):
    """What accepting an intent is decided by, besides the intent itself."""

    catalog: Catalog
    available: AbstractSet[str]
    admins: Mapping[str, Sequence[str]]
    toggles: Toggles

    def check(self, producer: str, intent: Intent, now: datetime) -> NewNotification | list[Fault]:
        """Give the notification an intent becomes, or everything that is wrong with it."""
        try:
            payload = _encoder.encode(intent.payload)
        except UnicodeEncodeError:
            return [Fault(field="payload", code="not_text", message="holds half of a surrogate pair")]
        if _is_too_deep(intent.payload, payload):
            message = f"is nested more than {DEEPEST_PAYLOAD} levels deep"
            return [Fault(field="payload", code="too_deep", message=message)]
        faults = audience_faults(intent.audience) + _size_faults(payload) + _time_faults(intent, now)
        faults += self.catalog.faults(intent.type, intent.version, intent.payload)
        kind = self.catalog.find(intent.type, intent.version)
        if faults or kind is None:
            return faults
        try:
            fingerprint = intent_fingerprint(intent)
        except rfc8785.CanonicalizationError as error:
            return [Fault(field="payload", code="not_canonical", message=f"has no canonical form: {error}")]
        return self._notification(producer, intent, kind, payload, fingerprint, now)

    def _notification(
        self,
        producer: str,
        intent: Intent,
        kind: NotificationType,
        payload: bytes,
        fingerprint: bytes,
        now: datetime,
    ) -> NewNotification:
        whom = recipients(intent, self.admins.get(intent.type, ()))
        ttl = intent.ttl_seconds or kind.policies.ttl_seconds
        starts = due_time(intent.send_at, intent.send_at_local, now)
        collected = None
        if kind.policies.digest is not None and starts <= now:
            starts += kind.policies.digest.window
            collected = collected_by(*self.catalog.resolve(intent.type, intent.version, intent.payload))
        return NewNotification(
            id=new_notification_id(),
            producer=producer,
            idempotency_key=intent.idempotency_key,
            fingerprint=fingerprint,
            type=kind.name,
            version=kind.version,
            audience=_encoder.encode(intent.audience),
            payload=payload,
            collapse_key=intent.collapse_key,
            request_id=intent.request_id,
            trace_id=intent.trace_id,
            occurred_at=intent.occurred_at,
            send_at=intent.send_at,
            send_at_local=intent.send_at_local,
            expires_at=starts + timedelta(seconds=ttl) if ttl else None,
            accepted_at=now,
            deliveries=plan(
                kind,
                whom,
                conditions=Conditions(
                    available=self.available,
                    off=self.off(kind),
                    due_at=starts,
                    now=now,
                    collapse_key=intent.collapse_key,
                    collected_by=collected,
                ),
            ),
        )

    def off(self, kind: NotificationType) -> frozenset[str]:
        """Name the channels of a type that are switched off."""
        return frozenset(channel for channel in kind.channels if not self.toggles.is_on(kind.name, channel))


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
    """Tell whether a payload is deeper than the parts that walk it can follow."""
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
    local = intent.send_at_local.replace(tzinfo=UTC) if intent.send_at_local else None
    moments = {"send_at": intent.send_at, "send_at_local": local, "occurred_at": intent.occurred_at}
    faults = [
        Fault(field=field, code="out_of_range", message=f"lies outside the years {YEARS[0]} to {YEARS[-1]}")
        for field, moment in moments.items()
        if moment and moment.year not in YEARS
    ]
    if intent.send_at and local:
        message = "cannot be given together with send_at: it is one or the other"
        faults.append(Fault(field="send_at_local", code="contradiction", message=message))
    for field in ("send_at", "send_at_local"):
        moment = moments[field]
        if not faults and moment and moment > now + FURTHEST_SEND_AT:
            message = f"is more than {FURTHEST_SEND_AT.days} days away"
            faults.append(Fault(field=field, code="too_far", message=message))
    return faults
