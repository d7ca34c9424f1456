"""API keys: creating them, and a cache of their holders."""

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec
import structlog

from tocsin.api.auth.roles import RIGHTS, Right, Role
from tocsin.domain.ids import uuid7
from tocsin.engine.clock import Clock
from tocsin.store import keys
from tocsin.store.keys import KeyRow
from tocsin.store.pool import Connection, Pool

PREFIX = "tocsin_"
REMEMBERED_SECONDS = 3.0
TOUCHED_SECONDS = 60.0
MOST_REMEMBERED = 10_000

_SECRET = re.compile(r"tocsin_[A-Za-z0-9_-]{43}")
_HINT = 4
_log = structlog.stdlib.get_logger(__name__)


class KeyHolder(msgspec.Struct, frozen=True):
    """A producer or operator, identified by an API key."""

    key_id: UUID
    producer: str
    role: Role

    def may(self, right: Right) -> bool:
        """Return whether the key's role has a right."""
        return right in RIGHTS[self.role]

    def may_see(self, producer: str) -> bool:
        """Return whether the holder may see the notifications of a producer."""
        return producer == self.producer or self.may(Right.SEE_ALL)


class NewKey(msgspec.Struct, frozen=True):
    """A new key; `secret` is shown this once and not stored."""

    row: KeyRow
    secret: str

    def __repr__(self) -> str:
        """Show the key without its secret."""
        return f"NewKey({self.row!r})"


def is_api_key(text: str) -> bool:
    """Return whether a text has the form of an API key."""
    return _SECRET.fullmatch(text) is not None


async def create_key(connection: Connection, producer: str, role: Role, now: datetime) -> NewKey:
    """Create a key for a producer and store its hash."""
    secret = PREFIX + secrets.token_urlsafe(32)
    row = KeyRow(
        id=uuid7(),
        producer=producer,
        role=role,
        hint=secret[-_HINT:],
        created_at=now,
        last_used_at=None,
        revoked_at=None,
    )
    await keys.create(connection, row, _digest(secret))
    return NewKey(row, secret)


class KeyRing:
    """Caches the holders of keys for a few seconds, so that a revoked key stops working soon.

    Unknown keys are cached too, in the same bounded cache.
    """

    def __init__(self, pool: Pool, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._monotonic = monotonic
        self._known: dict[bytes, tuple[float, KeyHolder | None]] = {}
        self._lookups: dict[bytes, asyncio.Task[KeyHolder | None]] = {}
        self._touched: dict[UUID, float] = {}
        self._touches: set[asyncio.Task[None]] = set()

    async def holder(self, secret: str) -> KeyHolder | None:
        """Return the holder of a key, or None if it is unknown or revoked."""
        if not is_api_key(secret):
            return None
        key_hash = _digest(secret)
        until, holder = self._known.get(key_hash, (0.0, None))
        if until <= self._monotonic():
            holder = await self._look_up_once(key_hash)
        if holder:
            self._touch(holder.key_id)
        return holder

    async def aclose(self) -> None:
        """Wait for background tasks."""
        await asyncio.gather(*self._touches, *self._lookups.values(), return_exceptions=True)

    async def _look_up_once(self, key_hash: bytes) -> KeyHolder | None:
        lookup = self._lookups.get(key_hash)
        if lookup is None:
            lookup = self._lookups[key_hash] = asyncio.create_task(self._look_up(key_hash))
            lookup.add_done_callback(lambda _: self._lookups.pop(key_hash))
        # A caller that hangs up must not take the answer from those who wait with it.
        return await asyncio.shield(lookup)

    async def _look_up(self, key_hash: bytes) -> KeyHolder | None:
        # Counted from before the question: an answer must not outlive a revocation by more.
        until = self._monotonic() + REMEMBERED_SECONDS
        row = await keys.find_live(self._pool, key_hash)
        holder = KeyHolder(row.id, row.producer, Role(row.role)) if row else None
        self._known.pop(key_hash, None)
        while len(self._known) >= MOST_REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[key_hash] = until, holder
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
