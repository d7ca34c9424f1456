"""API keys: creating them, and a cache of their holders."""

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import msgspec
import structlog

from tocsin.api.auth.holders import Holder
from tocsin.api.auth.roles import Role
from tocsin.domain.errors import TocsinError
from tocsin.domain.ids import uuid7
from tocsin.engine.clock import Clock
from tocsin.store import audit, keys
from tocsin.store.keys import KeyRow
from tocsin.store.pool import Connection, Pool

PREFIX = "tocsin_"
REMEMBERED_SECONDS = 3.0
TOUCHED_SECONDS = 60.0
MOST_REMEMBERED = 10_000
LONGEST_OVERLAP = timedelta(days=365)

_SECRET = re.compile(r"tocsin_[A-Za-z0-9_-]{43}")
_HINT = 4
_LISTED = 10
_log = structlog.stdlib.get_logger(__name__)


class NewKey(msgspec.Struct, frozen=True):
    """A new key; `secret` is shown this once and not stored."""

    row: KeyRow
    secret: str

    def __repr__(self) -> str:
        """Show the key without its secret."""
        return f"NewKey({self.row!r})"


class RotatedKey(msgspec.Struct, frozen=True):
    """A new key and the one that it replaces."""

    made: NewKey
    replaced: KeyRow


class OtherOrganisationError(TocsinError):
    """A producer has keys of another organisation; their idempotency keys would be shared."""

    def __init__(self, producer: str, org_id: str) -> None:
        super().__init__(
            f"{producer} has keys of the organisation {org_id}; choose another name for the producer."
        )


class AmbiguousKeyError(TocsinError):
    """A producer has several keys, and the call does not say which one is meant."""

    def __init__(self, producer: str, several: Sequence[KeyRow]) -> None:
        shown = ", ".join(f"{row.id} ({row.role}, ends in {row.hint})" for row in several[:_LISTED])
        more = " and more" if len(several) > _LISTED else ""
        super().__init__(f"{producer} has several keys; choose one by its id: {shown}{more}.")


def is_api_key(text: str) -> bool:
    """Return whether a text has the form of an API key."""
    return _SECRET.fullmatch(text) is not None


async def create_key(
    connection: Connection,
    producer: str,
    role: Role,
    now: datetime,
    *,
    actor: str | None = None,
    org_id: str | None = None,
) -> NewKey:
    """Create a key for a producer and store its hash; with an actor, record it in the audit.

    With an `org_id` it is bound to that organisation; raise OtherOrganisationError if the producer has keys
    of another one. Runs in a transaction then.
    """
    if org_id is not None and (other := await keys.other_org(connection, producer, org_id)):
        raise OtherOrganisationError(producer, other)
    secret = PREFIX + secrets.token_urlsafe(32)
    row = KeyRow(
        id=uuid7(),
        producer=producer,
        role=role,
        hint=secret[-_HINT:],
        created_at=now,
        last_used_at=None,
        revoked_at=None,
        org_id=org_id,
    )
    await keys.create(connection, row, _digest(secret))
    if actor is not None:
        await _record(connection, actor, "key.create", row)
    return NewKey(row, secret)


async def rotate_key(
    connection: Connection, name: str, overlap: timedelta, now: datetime, *, actor: str
) -> RotatedKey | None:
    """Create a key for the same producer and role as the current one, which works until the overlap ends.

    `name` is the id of a key or its producer. Return None if there is no such key; raise AmbiguousKeyError if
    the producer has several.
    """
    async with connection.transaction():
        found = await keys.lock_current(connection, _parse_id(name), name, _LISTED + 1)
        if not found:
            return None
        if len(found) > 1:
            raise AmbiguousKeyError(name, found)
        [old] = found
        made = await create_key(connection, old.producer, Role(old.role), now, org_id=old.org_id)
        replaced = await keys.replace(connection, old.id, made.row.id, overlap)
        if replaced is None:
            raise LookupError(f"the key {old.id} vanished while it was locked")
        details = {"replaces": old.id, "overlap_seconds": overlap.total_seconds()}
        await _record(connection, actor, "key.rotate", made.row, details)
    return RotatedKey(made, replaced)


async def revoke_key(connection: Connection, key_id: UUID, now: datetime, *, actor: str) -> KeyRow | None:
    """Revoke a key and those that it replaced; return None if there is no such key."""
    async with connection.transaction():
        row = await keys.revoke(connection, key_id, now)
        if row is not None:
            await _record(connection, actor, "key.revoke", row)
    return row


async def _record(
    connection: Connection, actor: str, action: str, row: KeyRow, details: Mapping[str, object] | None = None
) -> None:
    bound = {"org_id": row.org_id} if row.org_id is not None else {}
    shown = {"key_id": row.id, "role": row.role, **bound, **(details or {})}
    await audit.record(connection, actor=actor, action=action, subject=f"key:{row.producer}", details=shown)


def _parse_id(name: str) -> UUID | None:
    try:
        return UUID(name)
    except ValueError:
        return None


class KeyRing:
    """Caches the holders of keys for a few seconds, so that a revoked key stops working soon.

    Unknown keys are cached too, in the same bounded cache.
    """

    def __init__(self, pool: Pool, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._monotonic = monotonic
        self._known: dict[bytes, tuple[float, Holder | None]] = {}
        self._lookups: dict[bytes, asyncio.Task[Holder | None]] = {}
        self._touched: dict[UUID, float] = {}
        self._touches: set[asyncio.Task[None]] = set()

    async def holder(self, secret: str) -> Holder | None:
        """Return the holder of a key, or None if it is unknown, expired or revoked."""
        if not is_api_key(secret):
            return None
        key_hash = _digest(secret)
        until, holder = self._known.get(key_hash, (0.0, None))
        if until <= self._monotonic():
            holder = await self._look_up_once(key_hash)
        if holder and holder.key_id:
            self._touch(holder.key_id)
        return holder

    async def aclose(self) -> None:
        """Wait for background tasks."""
        await asyncio.gather(*self._touches, *self._lookups.values(), return_exceptions=True)

    async def _look_up_once(self, key_hash: bytes) -> Holder | None:
        lookup = self._lookups.get(key_hash)
        if lookup is None:
            lookup = self._lookups[key_hash] = asyncio.create_task(self._look_up(key_hash))
            lookup.add_done_callback(lambda _: self._lookups.pop(key_hash))
        # A caller that hangs up must not take the answer from those who wait with it.
        return await asyncio.shield(lookup)

    async def _look_up(self, key_hash: bytes) -> Holder | None:
        # Counted from before the question: an answer must not outlive a revocation by more.
        asked = self._monotonic()
        row = await keys.find_live(self._pool, key_hash)
        left = REMEMBERED_SECONDS
        if row and row.seconds_left is not None:
            # The overlap of a replaced key ends by the database's clock.
            left = min(left, row.seconds_left)
        holder = (
            Holder(producer=row.producer, roles=(Role(row.role),), key_id=row.id, org_id=row.org_id)
            if row
            else None
        )
        self._known.pop(key_hash, None)
        while len(self._known) >= MOST_REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[key_hash] = asked + left, holder
        return holder

    def _touch(self, key_id: UUID) -> None:
        now = self._monotonic()
        if now - self._touched.get(key_id, -TOUCHED_SECONDS) < TOUCHED_SECONDS:
            return
        self._touched[key_id] = now
        task = asyncio.create_task(self._note_use(key_id))
        self._touches.add(task)
        task.add_done_callback(self._touches.discard)

    async def _note_use(self, key_id: UUID) -> None:
        try:
            await keys.touch(self._pool, [key_id], self._clock())
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            _log.warning("key use not recorded", key_id=str(key_id), error=repr(error))


def _digest(secret: str) -> bytes:
    # 32 random bytes cannot be guessed, so they need no salt and no slow hash.
    return hashlib.sha256(secret.encode()).digest()
