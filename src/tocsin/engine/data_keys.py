"""Encrypts what is stored with the current data key, row by row, while everything runs."""

from collections.abc import Callable
from uuid import UUID

import msgspec

from tocsin.store import audit
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealed_rows import FIRST, check_data_keys, finish, rewrite
from tocsin.store.secrets.sealing import DataKeys


class RotatedData(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices and endpoints were rewritten, could not be read, and are not yet as they should be.

    `key_id` is the current key; without one, what was encrypted is plain text again.
    """

    key_id: str | None
    rewritten: int
    unreadable: int
    left: int


async def rotate_data(
    pool: Pool, keys: DataKeys, *, actor: str, progress: Callable[[int], None]
) -> RotatedData:
    """Rewrite every row that is not stored as the current key would store it, in batches.

    Each batch is a transaction of its own; a run that was stopped is continued by running it again.
    `progress` is called with how many rows have been looked at.
    """
    await check_data_keys(pool, keys)
    seen = rewritten = unreadable = 0
    position: UUID | None = FIRST
    while position is not None:
        async with pool.acquire() as connection:
            batch = await rewrite(connection, keys, position)
        seen += batch.seen
        rewritten += batch.changed
        unreadable += batch.unreadable
        position = batch.last
        progress(seen)
    async with pool.acquire() as connection, connection.transaction():
        left = await finish(connection, keys)
        done = RotatedData(key_id=keys.current_id, rewritten=rewritten, unreadable=unreadable, left=left)
        await audit.record(
            connection,
            actor=actor,
            action="data_key.rotate",
            subject="data",
            details=msgspec.to_builtins(done),
        )
    return done
