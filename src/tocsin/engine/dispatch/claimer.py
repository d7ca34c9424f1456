"""Claiming in rounds: each claim goes on where the last one ended."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from tocsin.domain.ids import LeaseId, new_lease_id
from tocsin.engine.clock import Clock
from tocsin.store.deliveries.claim import START, ClaimedDelivery, Position, claim, claim_named, scout
from tocsin.store.pool import Pool

ROUND = timedelta(seconds=1)
LOOK_AHEAD = 2_000


class Claim(msgspec.Struct, frozen=True):
    """Deliveries under one lease."""

    lease: LeaseId
    deliveries: list[ClaimedDelivery]


class Claimer:
    """Takes due deliveries of one channel, in the order they fell due.

    Behind the oldest delivery that waits, the due index is littered with entries of
    those already sent, until vacuum comes by. A round therefore starts where the last
    claim ended instead of at the head. It begins anew when a claim comes up short and
    at least once a second, so what fell due late or lost its lease is picked up too.
    """

    def __init__(self, pool: Pool, channel: str, lease_for: timedelta, clock: Clock) -> None:
        self._pool = pool
        self._channel = channel
        self._lease_for = lease_for
        self._clock = clock
        self._after = START
        self._round_began: datetime | None = None
        self._scouted = START

    async def claim(self, limit: int) -> Claim:
        """Take at most `limit` deliveries; none means that nothing is due."""
        now = self._clock()
        if self._round_began is None or now - self._round_began >= ROUND:
            self._after, self._round_began = START, now
        taken = await self._take(now, limit)
        if not taken.deliveries and self._after is not START:
            self._after = START
            taken = await self._take(now, limit)
        if len(taken.deliveries) < limit:
            self._after = START
        else:
            last = taken.deliveries[-1]
            self._after = Position(last.due_at, last.id)
        return taken

    async def scout(self, providers: Sequence[str], limit: int) -> Claim:
        """Look further ahead for what certain providers can be used for, and take it.

        Which provider a delivery needs shows only by its person's devices. A backlog of one provider would
        hold up the others, were there no look past it. Each look goes on where the last one ended.
        """
        now, lease = self._clock(), new_lease_id()
        async with self._pool.acquire() as connection:
            ids, self._scouted = await scout(
                connection, self._channel, providers, now=now, after=self._scouted, look_at=LOOK_AHEAD
            )
            if not ids:
                return Claim(lease, [])
            deliveries = await claim_named(
                connection,
                self._channel,
                lease=lease,
                now=now,
                until=now + self._lease_for,
                ids=ids[:limit],
            )
        return Claim(lease, deliveries)

    async def _take(self, now: datetime, limit: int) -> Claim:
        lease = new_lease_id()
        async with self._pool.acquire() as connection:
            deliveries = await claim(
                connection,
                self._channel,
                lease=lease,
                now=now,
                until=now + self._lease_for,
                after=self._after,
                limit=limit,
            )
        return Claim(lease, deliveries)
