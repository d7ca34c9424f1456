"""Erases a person: at once as far as possible, and the rest when what is being sent was settled."""

from collections import Counter
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

import msgspec
import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.domain.errors import TocsinError
from tocsin.domain.ids import first_id_at
from tocsin.domain.limits import person_keys
from tocsin.engine.clock import Clock
from tocsin.engine.duty import RETRIED_FAULTS, raise_if_cancelled, repeat
from tocsin.engine.time_slice import TimeSlice
from tocsin.store import audit
from tocsin.store.people import erasure as store
from tocsin.store.people import refused_content
from tocsin.store.people.erasure import ErasureRow
from tocsin.store.pool import Pool
from tocsin.store.retention.settled import START

EVERY_SECONDS = 15.0
LEASE_FOR = timedelta(minutes=1)
# Longer than the clocks of two processes, which make the ids, may differ.
READ_AGAIN = timedelta(minutes=10)
ACTION = "user.erase"

_log = structlog.stdlib.get_logger(__name__)


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased of a person.

    It is `unfinished` while something is being sent to them; a worker finishes it within a minute or so.
    `cancelled` of the `deliveries` waited; `payloads` went, those of notifications for several people stay.
    `user_hash` is the SHA-256 of the user id, under which the audit has it.
    """

    state: Literal["finished", "unfinished"]
    user_hash: str
    devices: int = 0
    deliveries: int = 0
    cancelled: int = 0
    payloads: int = 0
    refused_intents: int = 0


class OtherErasureError(TocsinError):
    """An erasure of the same user id for another organisation, or for all, is not finished."""

    def __init__(self) -> None:
        super().__init__("Another erasure of this user id is unfinished; try again in a minute.")


class Eraser:
    """Erases people, and continues erasures that are not finished; the catalog has the limits by person."""

    def __init__(self, pool: Pool, catalog: Catalog | None, clock: Clock) -> None:
        self._pool = pool
        self._catalog = catalog
        self._clock = clock

    async def run(self) -> None:
        """Continue unfinished erasures until cancelled."""
        await repeat(self._continue_next, name="erasure", every=EVERY_SECONDS)

    async def erase(self, user_id: str, actor: str, org_id: str | None = None) -> Erasure:
        """Erase a person; asking again continues, and erases what was stored since.

        With an `org_id`, deliveries, payloads and refused intents are those of that organisation.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            now = self._clock()
            begun = await store.begin(
                connection, user_id, self._counters(user_id), now, now + LEASE_FOR, org_id
            )
            if begun is None:
                raise OtherErasureError
            erasure, devices = begun
            await audit.record(connection, actor=actor, action=ACTION, subject=subject_of(user_id))
        return await self._continue(erasure, Counter(devices=devices))

    async def _continue_next(self) -> bool:
        """Continue the erasure that has waited longest; return whether there may be more."""
        now = self._clock()
        async with self._pool.acquire() as connection:
            erasure = await store.claim(connection, now, now + LEASE_FOR)
        if erasure is None:
            return False
        try:
            await self._continue(erasure, Counter())
        except RETRIED_FAULTS:
            raise
        except Exception:  # noqa: BLE001 - a bug about one person must not stop the erasure of others
            raise_if_cancelled()
            _log.exception("erasure failed", user_hash=erasure.user_hash.hex())
            async with self._pool.acquire() as connection:
                await store.renew(connection, erasure, self._clock() + timedelta(seconds=EVERY_SECONDS))
        return True

    async def _continue(self, erasure: ErasureRow, counts: Counter[str]) -> Erasure:
        user_id = str(erasure.user_id)
        while batch := await self._erase_batch(erasure):
            counts.update(batch)
        counts["refused_intents"] += await self._erase_refused(erasure)
        now = self._clock()
        async with self._pool.acquire() as connection, connection.transaction():
            # A message that was being sent may have counted, or have found its address dead, meanwhile.
            await store.delete_counters(connection, self._counters(user_id))
            await store.hash_suppression(connection, erasure)
            await store.delete_inbox(connection, erasure)
            being_sent = await store.is_being_sent(connection, erasure)
            if being_sent:
                await store.renew(connection, erasure, now + timedelta(seconds=EVERY_SECONDS))
            else:
                await store.finish(connection, erasure, now)
        result = Erasure(
            state="unfinished" if being_sent else "finished", user_hash=erasure.user_hash.hex(), **counts
        )
        _log.info("person erased", **msgspec.structs.asdict(result))
        return result

    async def _erase_batch(self, erasure: ErasureRow) -> dict[str, int] | None:
        async with self._pool.acquire() as connection, connection.transaction():
            now = self._clock()
            batch = await store.erase_deliveries(connection, erasure, now)
            await store.renew(connection, erasure, now + LEASE_FOR)
        return msgspec.structs.asdict(batch) if batch.deliveries else None

    async def _erase_refused(self, erasure: ErasureRow) -> int:
        """Erase the person from refused intents, read from where an earlier call ended."""
        user_id, email = str(erasure.user_id), erasure.email
        after, erased, slice_ = erasure.refused_until or START, 0, TimeSlice()
        while True:
            async with self._pool.acquire() as connection:
                page = await refused_content.list_refused(connection, user_id, email, after)
                if not page:
                    return erased
                after = page[-1].id
                ids: list[UUID] = []
                for each in page:
                    await slice_.pause()
                    is_own = erasure.org_id in {None, each.org_id}
                    if is_own and each.content is not None and names_person(each.content, user_id, email):
                        ids.append(each.id)
                async with connection.transaction():
                    if ids:
                        await refused_content.erase_refused(connection, ids)
                    now = self._clock()
                    until = min(after, first_id_at(now - READ_AGAIN))
                    await store.renew(connection, erasure, now + LEASE_FOR, until)
                erased += len(ids)

    def _counters(self, user_id: str) -> list[str]:
        return counter_keys(self._catalog, user_id)


def counter_keys(catalog: Catalog | None, user_id: str) -> list[str]:
    """Return the keys that count what a person got."""
    return sorted(person_keys(catalog.types.values() if catalog else (), user_id))


def subject_of(user_id: str) -> str:
    """Return the subject of a person in the audit, which whoever has the id can check and nobody can read."""
    return f"user:sha256:{store.user_hash(user_id).hex()}"


def names_person(content: str, user_id: str, email: str | None) -> bool:
    """Return whether a refused intent is for a person, or contains their address.

    One that cannot be decoded, and contains the id, may be for them: it counts.
    """
    if email is not None and email.lower() in content.lower():
        return True
    audience = read_audience(content)
    return user_id in (content if audience is None else audience.get("users", []))


def read_audience(content: str) -> dict[str, list[str]] | None:
    """Return the fields of a refused intent's audience, each as a list of texts.

    None if there is no audience that can be read: the content may be anything, be cut off, or be nested
    deeper than a decoder follows.
    """
    try:
        intent: Any = msgspec.json.decode(content)
        audience = intent.get("audience") if isinstance(intent, dict) else None
        if not isinstance(audience, dict):
            return None
        return {
            field: list(map(str, given if isinstance(given, list) else [given]))
            for field, given in audience.items()
        }
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
