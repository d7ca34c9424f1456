"""Replays dead letters in batches, each at the rate that its operator chose."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from uuid import UUID

import msgspec
import structlog

from tocsin.domain.decide import Step
from tocsin.domain.ids import new_delivery_id
from tocsin.engine.clock import Clock
from tocsin.engine.duty import repeat
from tocsin.store.dead_letters import replays
from tocsin.store.dead_letters.reading import matching, stretch
from tocsin.store.dead_letters.replaying import (
    Candidate,
    FreeDevices,
    Message,
    Placed,
    Sibling,
    candidates,
    free_devices,
    renew,
    replay,
    replay_digests,
)
from tocsin.store.dead_letters.replays import ReplayRow
from tocsin.store.pool import Connection, Pool
from tocsin.wire.dead_letters import DeadLetterFilter

EVERY_SECONDS = 1.0
BATCHES_A_SECOND = 4
LARGEST_BATCH = 1_000
SKIPPED = 500
"""How many a batch looks at where the first ones are left out."""
LEFT_SECONDS = 5.0
"""For how long a replay is left to others that this version does not understand."""
EXAMINED = 5_000
"""How many dead letters a batch looks through for those that match."""

_filter = msgspec.json.Decoder(DeadLetterFilter)
_left_out = msgspec.json.Decoder(dict[str, int])
_log = structlog.stdlib.get_logger(__name__)


class Replayer:
    """Takes turns with the other workers: a batch is one transaction, and whoever locks the replay does it.

    A batch moves the replay's position together with the deliveries. If its worker dies, nothing of it
    happened, and the next one repeats it.
    """

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def run(self) -> None:
        """Replay until cancelled."""
        await repeat(self._step, name="replay", every=EVERY_SECONDS)

    async def _step(self) -> bool:
        """Do the batch that is due first; return whether another one follows."""
        async with self._pool.acquire() as connection, connection.transaction():
            row = await replays.take(connection)
            if row is None:
                return False
            if row.wait <= 0:
                await self._take_turn(connection, row)
                return True
        await asyncio.sleep(min(row.wait, EVERY_SECONDS))
        return True

    async def _take_turn(self, connection: Connection, row: ReplayRow) -> None:
        """Do the next batch, or leave it to a worker that knows every field of the filter."""
        try:
            _filter.decode(row.filter)
        except msgspec.ValidationError as error:
            _log.warning("replay left to a newer version", replay_id=str(row.id), error=str(error))
            await replays.postpone(connection, row.id, LEFT_SECONDS)
        else:
            await run_batch(connection, row, self._clock())


async def run_batch(connection: Connection, row: ReplayRow, now: datetime) -> None:
    """Do the next batch of a replay that is under lock, within the transaction of the caller."""
    found, position = await _next(connection, row, now)
    step = Step(rule="replay", result="pass", detail=f"replayed by {row.created_by}, replay {row.id}", at=now)
    left_out = Counter(_left_out.decode(row.left_out))
    replayed = await _replay(connection, found, step, now, force=row.force, left_out=left_out)
    finished = position >= row.through
    await replays.advance(
        connection, row.id, position, replayed=replayed, left_out=+left_out, finished=finished
    )
    if finished:
        _log.info(
            "replay finished",
            replay_id=str(row.id),
            deliveries=row.replayed + replayed,
            left_out=+left_out,
        )


async def _next(connection: Connection, row: ReplayRow, now: datetime) -> tuple[list[Candidate], UUID]:
    """Return the next dead letters, with no more that can be replayed than the rate allows, and the last id.

    If none of the first ones can be, the batch goes on to those that can: at a low rate there may be very
    many that are left out, and skipping a few at a time would take as many transactions.
    """
    size = min(max(row.rate // BATCHES_A_SECOND, 1), LARGEST_BATCH)
    wanted = _filter.decode(row.filter)
    within = await stretch(connection, wanted, row.position, row.through, EXAMINED)
    ids = await matching(connection, wanted, within, size)
    found = await candidates(connection, ids, now)
    if len(ids) < size:
        return found, within.through
    if size >= SKIPPED or await _replayable(connection, found, force=row.force):
        # It may have left some of the stretch to the next batch.
        return found, ids[-1]
    ids = await matching(connection, wanted, within, SKIPPED)
    found = await candidates(connection, ids, now)
    replayable = await _replayable(connection, found, force=row.force)
    if len(replayable) > size:
        beyond = [each.id for each in found].index(replayable[size])
        return found[:beyond], found[beyond - 1].id
    return found, ids[-1] if len(ids) == SKIPPED else within.through


async def _replayable(connection: Connection, found: Sequence[Candidate], *, force: bool) -> list[UUID]:
    """List those that nothing keeps from being replayed, taken each by itself."""
    free = [each for each in found if _obstacle(each, force=force) is None]
    devices = await free_devices(connection, [each for each in free if _is_lost(each)])
    return [each.id for each in free if not _is_lost(each) or devices[each.message]]


def _is_lost(candidate: Candidate) -> bool:
    """Return whether it needs another device."""
    return candidate.digest_id is None and not candidate.reachable


async def _replay(
    connection: Connection,
    found: Sequence[Candidate],
    step: Step,
    now: datetime,
    *,
    force: bool,
    left_out: Counter[str],
) -> int:
    """Replay candidates; count in `left_out` those that cannot be, by reason; return how many were."""
    kept = []
    for each in found:
        reason = _obstacle(each, force=force)
        if reason is None:
            kept.append(each)
        else:
            left_out[reason] += 1
    if force and kept:
        await renew(connection, kept, now)
    single = [each for each in kept if each.digest_id is None]
    lost = [each for each in single if _is_lost(each)]
    placed, siblings = _place(lost, await free_devices(connection, lost))
    left_out["no_device"] += len(lost) - len(placed)
    placed += [Placed(each.id) for each in single if each.reachable]
    fallbacks = _fallbacks_among(kept, {each.id for each in placed})
    left_out["first_channel_replayed"] += len(fallbacks)
    placed = [each for each in placed if each.id not in fallbacks]
    siblings = [each for each in siblings if each.original_id not in fallbacks]
    replayed = await replay(connection, placed, siblings, step, now) if placed else 0
    if digests := sorted({each.digest_id for each in kept if each.digest_id is not None}):
        replayed += await replay_digests(connection, digests, step, now)
    return replayed


def _place(lost: Sequence[Candidate], devices: FreeDevices) -> tuple[list[Placed], list[Sibling]]:
    """Assign a device to each dead letter that lost its own, as far as there are any.

    The last one of a message takes the rest besides, as siblings: a new push would go to every device.
    """
    placed: list[Placed] = []
    last: dict[Message, Candidate] = {}
    for each in lost:
        if free := devices[each.message]:
            placed.append(Placed(each.id, *free.pop(0)))
            last[each.message] = each
    siblings = [
        Sibling(new_delivery_id(), each.id, *device)
        for message, each in last.items()
        for device in devices[message]
    ]
    return placed, siblings


def _fallbacks_among(kept: Sequence[Candidate], placed: AbstractSet[UUID]) -> set[UUID]:
    """Return those of the placed dead letters that are the fallback for another one that is replayed."""
    replayed = {each.message for each in kept if each.id in placed or each.digest_id is not None}
    return {each.id for each in kept if each.id in placed and each.stands_in_for in replayed}


def _obstacle(candidate: Candidate, *, force: bool) -> str | None:
    """Return why a dead letter is left out, or None."""
    if candidate.erased:
        return "erased"
    if candidate.cancelled:
        return "cancelled"
    if candidate.superseded:
        return "superseded_by_failover"
    if candidate.collapsed:
        return "collapsed"
    if candidate.first_channel_pending:
        return "first_channel_replayed"
    if candidate.withdrawn:
        return "withdrawn"
    if candidate.expired and not force:
        return "expired"
    return None
