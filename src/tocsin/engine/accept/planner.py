"""Checks intents against the catalog and plans their deliveries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import msgspec
import rfc8785
from msgspec.structs import replace

from tocsin.catalog.catalog import Catalog, UnknownTypeError
from tocsin.catalog.schema import Schema
from tocsin.domain.catalog import NotificationType, variable_form
from tocsin.domain.delivery.settings import LARGEST_AUDIENCE_BY_ATTRIBUTES
from tocsin.domain.digest import digest_group
from tocsin.domain.faults import Fault
from tocsin.domain.fingerprint import encode_sorted, intent_fingerprint
from tocsin.domain.ids import LAST, NotificationId, new_notification_id
from tocsin.domain.intent import (
    Audience,
    Intent,
    audience_faults,
    audience_kind,
    distinct_users,
    is_query,
    locale_faults,
    recipients,
)
from tocsin.domain.people.locale import normalize
from tocsin.domain.plan import ChannelPlan, Conditions, PlannedDelivery, due_time
from tocsin.domain.timing.moments import moment_faults, send_time_faults
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.broadcasts.broadcasts import NewBroadcast
from tocsin.store.broadcasts.members import Members
from tocsin.store.notifications import NewNotification

LARGEST_PAYLOAD = 65_536
DEEPEST_PAYLOAD = 64

_NUL = b"\\u0000"
_ESCAPE = ord("\\")
_SHOWN = 80
_NO_NOTIFICATION = NotificationId(LAST)
_encode = msgspec.json.Encoder().encode


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
        return Planning(self, producer, now).check(intent)

    def plan_people(self, intent: Intent, people: Iterable[str], now: datetime) -> Iterator[PlannedDelivery]:
        """Plan, one by one, the deliveries to people whom the audience of an intent finds.

        The type is looked up at once: the catalog may be reloaded while the iterator is used.
        """
        notification_type = self.catalog.find(intent.type, intent.version)
        if notification_type is None:
            raise UnknownTypeError(intent.type, intent.version)
        channel_plan = ChannelPlan(notification_type, self.conditions(intent, notification_type, now))
        return chain.from_iterable(map(channel_plan.user_deliveries, people))

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
        audience, channels = intent.audience, len(notification_type.channels)
        if is_query(audience):
            return 0 if audience.attributes is None else self.largest_audience * channels
        if (users := audience.users) is not None:
            return (1 if len(users) == 1 else len(distinct_users(users))) * channels
        return len(recipients(intent, self.admins_of(intent))) * channels

    def admins_of(self, intent: Intent) -> Sequence[str]:
        """Return the administrators of an intent's type, if the intent is for them."""
        if intent.audience.admins is None:
            return ()
        own = self.admins.get(intent.type)
        return self.admins.get(variable_form(intent.type), ()) if own is None else own

    def conditions(self, intent: Intent, notification_type: NotificationType, now: datetime) -> Conditions:
        """Return what applies to all deliveries of an intent."""
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


class _TypePlan(msgspec.Struct, frozen=True):
    """What is the same for all intents of one version of a type that one producer hands in at one moment.

    `notification` lacks what an intent adds. `channel_plans` are those by the kind of the audience, or by no
    kind if all are treated alike; only intents that are due at once under no key of their own use them.
    """

    type: NotificationType
    schema: Schema
    notification: NewNotification
    channel_plans: dict[str, ChannelPlan]


class Planning:
    """Checks and plans the intents of a producer at one moment; what their types decide is looked up once."""

    def __init__(self, planner: Planner, producer: str, now: datetime) -> None:
        self._planner = planner
        self._producer = producer
        self._now = now
        self._compiled = planner.catalog.compiled
        self._types: dict[tuple[str, int | None], _TypePlan] = {}

    def check(self, intent: Intent) -> NewNotification | list[Fault]:
        """Build the notification of an intent, or list everything that is wrong with it."""
        try:
            payload = encode_sorted(intent.payload)
        except UnicodeEncodeError:
            return [Fault(field="payload", code="not_text", message="holds half of a surrogate pair")]
        if len(payload) > DEEPEST_PAYLOAD and _is_too_deep(intent.payload, payload):
            message = f"is nested more than {DEEPEST_PAYLOAD} levels deep"
            return [Fault(field="payload", code="too_deep", message=message)]
        faults = _general_faults(intent, payload, self._now)
        if self._planner.catalog.compiled is not self._compiled:
            # The catalog was reloaded between two intents, and may lack a type that it had.
            self._compiled, self._types = self._planner.catalog.compiled, {}
        found = self._types.get((intent.type, intent.version)) or self._type_plan(intent)
        if found is None:
            return faults + self._planner.catalog.faults(intent.type, intent.version, intent.payload)
        if not found.schema.accepts(intent.payload):
            faults += found.schema.faults("payload", intent.payload)
        if found.type.audiences is not None:
            faults += _kind_faults(found.type, found.type.audiences, intent.audience)
        if faults:
            return faults
        try:
            fingerprint = intent_fingerprint(intent, payload)
        except rfc8785.CanonicalizationError as error:
            return [_not_canonical(error)]
        return self._notification(intent, found, payload, fingerprint)

    def _type_plan(self, intent: Intent) -> _TypePlan | None:
        """Look up a type; return None if there is none of this name and version."""
        notification_type = self._planner.catalog.find(intent.type, intent.version)
        if notification_type is None:
            return None
        plan = _TypePlan(
            type=notification_type,
            schema=self._planner.catalog.schema(notification_type),
            notification=NewNotification(
                id=_NO_NOTIFICATION,
                producer=self._producer,
                idempotency_key="",
                fingerprint=b"",
                type=notification_type.name,
                version=notification_type.version,
                audience=b"",
                payload=b"",
                collapse_key=None,
                request_id=None,
                trace_id=None,
                occurred_at=None,
                send_at=None,
                send_at_local=None,
                expires_at=_expiry(self._now, notification_type.policies.ttl_seconds),
                accepted_at=self._now,
                deliveries=(),
            ),
            channel_plans={},
        )
        return self._types.setdefault((intent.type, intent.version), plan)

    def _notification(
        self, intent: Intent, found: _TypePlan, payload: bytes, fingerprint: bytes
    ) -> NewNotification:
        is_usual = intent.send_at is None and intent.send_at_local is None and intent.collapse_key is None
        kind = "" if found.type.audiences is None else audience_kind(intent.audience)
        channel_plan = found.channel_plans.get(kind) if is_usual else None
        if channel_plan is None:
            channel_plan = ChannelPlan(found.type, self._planner.conditions(intent, found.type, self._now))
            if is_usual and found.type.policies.digest is None:
                found.channel_plans[kind] = channel_plan
        notification = replace(
            found.notification,
            id=new_notification_id(),
            idempotency_key=intent.idempotency_key,
            fingerprint=fingerprint,
            audience=_encode(intent.audience),
            payload=payload,
            request_id=intent.request_id,
            trace_id=intent.trace_id,
            deliveries=self._deliveries(intent, channel_plan),
        )
        is_usual = is_usual and intent.ttl_seconds is None and intent.occurred_at is None
        # The time to live of what a digest collects begins when its window ends.
        is_usual = is_usual and channel_plan.due_at == self._now
        if is_usual and intent.locale is None and intent.org_id is None:
            return notification
        ttl = intent.ttl_seconds or found.type.policies.ttl_seconds
        return replace(
            notification,
            collapse_key=intent.collapse_key,
            occurred_at=intent.occurred_at,
            locale=normalize(intent.locale) if intent.locale else None,
            org_id=intent.org_id,
            send_at=intent.send_at,
            send_at_local=intent.send_at_local,
            expires_at=_expiry(channel_plan.due_at, ttl),
        )

    def _deliveries(self, intent: Intent, channel_plan: ChannelPlan) -> Sequence[PlannedDelivery]:
        users = intent.audience.users
        if users is None:
            whom = recipients(intent, self._planner.admins_of(intent))
            return [each for recipient in whom for each in channel_plan.deliveries(recipient)]
        if len(users) == 1:
            return channel_plan.user_deliveries(str(users[0]))
        return [each for user in distinct_users(users) for each in channel_plan.user_deliveries(user)]


def _expiry(due_at: datetime, ttl_seconds: int | None) -> datetime | None:
    return due_at + timedelta(seconds=ttl_seconds) if ttl_seconds else None


def _kind_faults(
    notification_type: NotificationType, audiences: Mapping[str, Sequence[str]], audience: Audience
) -> list[Fault]:
    """List the kind of an audience if its type is not for it."""
    if audience_faults(audience) or (kind := audience_kind(audience)) in audiences:
        return []
    message = f"{notification_type.name} is not for {kind}; it is for: {', '.join(audiences)}"
    return [Fault(field="audience", code="audience_not_allowed", message=message)]


def _not_canonical(error: rfc8785.CanonicalizationError) -> Fault:
    """Build the fault of a payload with a number that another reader of JSON may round; it may be long."""
    number, _, why = str(error).partition(" ")
    shown = number if len(number) <= _SHOWN else f"{number[: _SHOWN - 1]}…"
    return Fault(field="payload", code="not_canonical", message=f"has no canonical form: {shown} {why}")


def _general_faults(intent: Intent, payload: bytes, now: datetime) -> list[Fault]:
    """List what is wrong with an intent whatever its type is."""
    faults = audience_faults(intent.audience)
    # A single byte is looked for at a fraction of the cost of several, and few payloads have an escape.
    if len(payload) > LARGEST_PAYLOAD or (_ESCAPE in payload and _NUL in payload):
        faults += _size_faults(payload)
    if intent.occurred_at is not None or intent.send_at is not None or intent.send_at_local is not None:
        faults += _time_faults(intent, now)
    if intent.locale is not None:
        faults += locale_faults(intent.locale)
    return faults


def _size_faults(payload: bytes) -> list[Fault]:
    if len(payload) > LARGEST_PAYLOAD:
        return [
            Fault(
                field="payload",
                code="too_large",
                message=f"is {len(payload)} bytes as JSON; at most {LARGEST_PAYLOAD} are taken",
            )
        ]
    if _NUL in payload and _holds_nul(msgspec.json.decode(payload)):
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
    local = intent.send_at_local.replace(tzinfo=UTC) if intent.send_at_local else None
    faults = moment_faults("occurred_at", intent.occurred_at) if intent.occurred_at else []
    for field, moment in (("send_at", intent.send_at), ("send_at_local", local)):
        if moment:
            faults += send_time_faults(field, moment, now)
    if intent.send_at and local:
        message = "cannot be given together with send_at: it is one or the other"
        faults.append(Fault(field="send_at_local", code="contradiction", message=message))
    return faults
