"""Exports everything that is stored about a person as one JSON document, written in parts.

Device tokens and the secrets of webhook endpoints are credentials, not data about the person: a token is
shown as the start of its hash, a secret not at all. Nor are the other recipients of a notification shown.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.intent import normal_address
from tocsin.domain.limits import device_key
from tocsin.domain.people.devices import short_hash
from tocsin.engine.retention.erase import counter_keys, names_person, read_audience
from tocsin.engine.time_slice import TimeSlice
from tocsin.store.broadcasts import segments
from tocsin.store.people import export, preferences, refused_content, users
from tocsin.store.people.export import ExportedDelivery
from tocsin.store.people.refused_content import RefusedContent
from tocsin.store.pool import Connection, Pool

_encoder = msgspec.json.Encoder()


class Exporter:
    """Reads the data of a person; no connection is held while a part is written.

    With an `org_id`, notifications, digests and refused intents are those of that organisation, and whether
    the address is suppressed, which concerns all, is left out.
    """

    def __init__(self, pool: Pool, catalog: Catalog | None, org_id: str | None = None) -> None:
        self._pool = pool
        self._org_id = org_id
        self._catalog = catalog

    async def export(self, user_id: str, now: datetime) -> AsyncIterator[bytes]:
        """Yield the parts of a JSON document."""
        async with self._pool.acquire() as connection:
            known = await self._known(connection, user_id)
        head = {"user_id": user_id, "exported_at": now, **known}
        email = known["directory"].email if known["directory"] else None
        address = normal_address(email) if email else None
        yield _encoder.encode(head)[:-1]
        yield b',"refused_intents":['
        async for part in _joined(self._refused(user_id, email)):
            yield part
        yield b'],"notifications":['
        async for part in _joined(self._notifications(user_id, address)):
            yield part
        yield b'],"inbox":['
        async for part in _joined(self._inbox(user_id)):
            yield part
        yield b'],"digests":['
        async for part in _joined(self._carriers(user_id)):
            yield part
        yield b"]}"

    async def _known(self, connection: Connection, user_id: str) -> dict[str, Any]:
        directory = await users.get(connection, user_id)
        own = await export.devices(connection, user_id)
        keys = [*counter_keys(self._catalog, user_id), *(device_key(each.id) for each in own)]
        email = directory.email if directory else None
        known = {
            "directory": directory,
            "preferences": await preferences.get(connection, user_id),
            "devices": [
                msgspec.structs.asdict(each) | {"token_hash": short_hash(each.token_hash)} for each in own
            ],
            "webhook_endpoints": await export.endpoints(connection, user_id),
            "registrations": await export.registrations(connection, user_id),
            "segments": await segments.names_of_user(connection, user_id, self._org_id),
            "limits": await export.counters(connection, sorted(keys)),
        }
        if self._org_id is None:
            known["suppression"] = await export.suppression(connection, email) if email else None
        return known

    async def _refused(self, user_id: str, email: str | None) -> AsyncIterator[Any]:
        after, slice_ = export.START, TimeSlice()
        while True:
            async with self._pool.acquire() as connection:
                page = await refused_content.list_refused(connection, user_id, email, after)
            if not page:
                return
            after = page[-1].id
            for each in page:
                await slice_.pause()
                is_own = self._org_id in {None, each.org_id}
                if is_own and each.content is not None and names_person(each.content, user_id, email):
                    yield _refused_intent(each, user_id, email)

    async def _notifications(self, user_id: str, address: str | None) -> AsyncIterator[Any]:
        after = export.START
        while True:
            async with self._pool.acquire() as connection:
                ids = await export.notification_ids(connection, user_id, address, after)
                if not ids:
                    return
                own = await export.deliveries(connection, ids, user_id, address)
                shown = await _with_attempts(connection, own)
                found = await export.notifications(connection, ids)
            after = ids[-1]
            for notification in found:
                if self._org_id not in {None, notification.org_id}:
                    continue
                fields = msgspec.structs.asdict(notification)
                yield fields | {"deliveries": shown[notification.id]}

    async def _inbox(self, user_id: str) -> AsyncIterator[Any]:
        after = export.START
        while True:
            async with self._pool.acquire() as connection:
                page = await export.inbox(connection, user_id, after, self._org_id)
            if not page:
                return
            after = page[-1].id
            for item in page:
                yield msgspec.structs.asdict(item) | {"data": msgspec.Raw(item.data.encode())}

    async def _carriers(self, user_id: str) -> AsyncIterator[Any]:
        after = export.START
        while True:
            async with self._pool.acquire() as connection:
                page = await export.carriers(connection, user_id, after, self._org_id)
                shown = await _with_attempts(connection, page)
            if not page:
                return
            after = page[-1].id
            for delivery in shown[None]:
                yield delivery


def _refused_intent(refused: RefusedContent, user_id: str, email: str | None) -> dict[str, Any]:
    """Return what is shown of a refused intent that names a person.

    Content and faults, which may quote it, are shown only if it is for nobody else.
    """
    fields = msgspec.structs.asdict(refused)
    content, faults = fields.pop("content"), fields.pop("faults")
    if _is_for_alone(content, user_id, email):
        return fields | {"faults": msgspec.Raw(faults.encode()), "content": content}
    return fields


def _is_for_alone(content: str, user_id: str, email: str | None) -> bool:
    audience = read_audience(content)
    if not audience or not audience.keys() <= {"users", "emails"}:
        return False
    users, emails = set(audience.get("users", ())), set(map(str.lower, audience.get("emails", ())))
    own = {email.lower()} if email is not None else set()
    return bool(users or emails) and users <= {user_id} and emails <= own


async def _with_attempts(
    connection: Connection, deliveries: Sequence[ExportedDelivery]
) -> dict[UUID | None, list[dict[str, Any]]]:
    """Return deliveries with their failed attempts, by notification."""
    attempts = defaultdict(list)
    for attempt in await export.attempts(connection, [each.id for each in deliveries]):
        attempts[attempt.delivery_id].append(attempt)
    shown = defaultdict(list)
    for each in deliveries:
        shown[each.notification_id].append(
            msgspec.structs.asdict(each) | {"failed_attempts": attempts[each.id]}
        )
    return shown


async def _joined(values: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Yield values as the elements of a JSON list."""
    first = True
    async for value in values:
        yield (b"" if first else b",") + _encoder.encode(value)
        first = False
