"""Reserves places within the limits and assigns a device to each attempt, in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.decide import Skip, Wait
from tocsin.domain.ids import DeliveryId, LeaseId, new_delivery_id
from tocsin.domain.limits import Allowance, limit_verdict
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.store.deliveries.fan_out import Placement, fan_out, lock_leased, mark_reserved, move
from tocsin.store.deliveries.holds import release_next
from tocsin.store.limits import LimitRequest, give_back, reserve
from tocsin.store.pool import Connection, Pool


class LimitReached(msgspec.Struct, frozen=True):
    """An attempt for which a limit has no place left."""

    attempt: Attempt
    refusal: Skip | Wait


class FannedOut(msgspec.Struct, frozen=True):
    """The attempts of this lane that may be sent, and those that a limit stopped."""

    attempts: list[Attempt]
    limited: list[LimitReached]


class FanOut(msgspec.Struct, frozen=True):
    """Assigns devices to admitted attempts of one lane.

    Each device gets a row: those of this lane stay under the lease and are sent now, the others wait in their
    own lane.
    """

    pool: Pool
    rules: DeliveryRules
    lane: str

    async def place(self, admitted: Sequence[Attempt], lease: LeaseId, now: datetime) -> FannedOut:
        """Reserve, fan out, and return what this lane sends now."""
        async with self.pool.acquire() as connection, connection.transaction():
            return await self._place(connection, admitted, lease, now)

    async def _place(
        self, connection: Connection, attempts: Sequence[Attempt], lease: LeaseId, now: datetime
    ) -> FannedOut:
        elsewhere = [(each.id, lane) for each in attempts if (lane := self._other_lane(each)) is not None]
        if elsewhere:
            await move(connection, elsewhere, lease)
        moved = {delivery_id for delivery_id, _ in elsewhere}
        staying = [each for each in attempts if each.id not in moved]
        if limited_ids := [each.id for each in staying if each.limited]:
            # A place is reserved together with the mark on the delivery: who lost the lease gets neither.
            kept = await lock_leased(connection, limited_ids, lease)
            staying = [each for each in staying if not each.limited or each.id in kept]
        full = await _reserve(connection, {each.id: each.allowances for each in staying})
        limited = [_limit_reached(each, full[each.id], now) for each in staying if each.id in full]
        admitted = [each for each in staying if each.id not in full]
        targets = [target for each in admitted for target in self._targets(each)]
        full = await _reserve(
            connection,
            {
                each.id: self.rules.attempt_device_allowances(each, now)
                for each in targets
                if not each.delivery.reserved
            },
        )
        limited += [_limit_reached(each, full[each.id], now) for each in targets if each.id in full]
        reached = {each.delivery.id for each in targets if each.id not in full}
        if nowhere := [each.allowances for each in admitted if each.id not in reached]:
            await give_back(connection, [each for allowances in nowhere for each in allowances])
        sent = await self._write(connection, targets, full, lease, now)
        return FannedOut(sent, limited)

    def _other_lane(self, attempt: Attempt) -> str | None:
        """Return the one lane that all devices of an attempt belong to, if it is another."""
        lanes = {destination.provider for destination in attempt.destinations}
        return lanes.pop() if len(lanes) == 1 and self.lane not in lanes else None

    def _targets(self, attempt: Attempt) -> list[Attempt]:
        """Return an attempt for each device; one of this lane keeps the delivery's own row."""
        first, *others = sorted(attempt.destinations, key=lambda each: each.provider != self.lane)
        attempt.destination = first
        return [attempt, *(attempt.sibling(new_delivery_id(), device) for device in others if device.id)]

    async def _write(
        self,
        connection: Connection,
        targets: Sequence[Attempt],
        full: dict[UUID, Allowance],
        lease: LeaseId,
        now: datetime,
    ) -> list[Attempt]:
        """Write the rows of all targets and return those that this lane sends now."""
        placements: list[Placement] = []
        in_place: list[UUID] = []
        sent: list[Attempt] = []
        for target in targets:
            destination = target.destination or target.destinations[0]
            stopped = target.id in full
            target.reserved = not stopped
            behind = destination.id in target.delivery.order_blockers and not stopped
            leased = stopped or (destination.provider == self.lane and not behind)
            if leased and not stopped:
                sent.append(target)
            if target.delivery.device_id is None and (len(target.destinations) > 1 or behind):
                placements.append(
                    Placement(
                        delivery_id=target.delivery.id,
                        sibling_id=None if target.id == target.delivery.id else DeliveryId(target.id),
                        device_id=destination.id,
                        lane=destination.provider,
                        leased=leased,
                        in_order=behind,
                        reserved=not stopped,
                    )
                )
            elif not stopped:
                in_place.append(target.id)
        if in_place:
            await mark_reserved(connection, in_place, lease)
        if not placements:
            return sent
        made = await fan_out(connection, placements, lease, now)
        if keys := sorted({each.delivery.ordering_key for each in targets if each.delivery.ordering_key}):
            # Those behind it wait for its devices from now on, not for all of it.
            await release_next(connection, keys, now)
        return [target for target in sent if target.id == target.delivery.id or target.id in made]


async def _reserve(
    connection: Connection, wanted: Mapping[UUID, tuple[Allowance, ...]]
) -> dict[UUID, Allowance]:
    """Reserve places; return the limit that is used up for each attempt that got none."""
    requests = [LimitRequest(each, allowances) for each, allowances in wanted.items() if allowances]
    return await reserve(connection, requests) if requests else {}


def _limit_reached(attempt: Attempt, full: Allowance, now: datetime) -> LimitReached:
    """Stop an attempt; one that waits reserves every place again, in the window in which it is sent."""
    attempt.reserved = False
    refusal = limit_verdict(full, now)
    attempt.steps += refusal.steps
    return LimitReached(attempt, refusal)
