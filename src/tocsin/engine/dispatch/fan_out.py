"""The last gate before sending: a place within the limits, and a delivery for each device."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec.structs import replace

from tocsin.domain.decide import Hold, Step
from tocsin.domain.ids import LeaseId, new_delivery_id
from tocsin.domain.limits import Allowance
from tocsin.engine.dispatch.attempt import Aim, aim_at
from tocsin.engine.dispatch.rules import Admitted, Triage
from tocsin.engine.settle.settlements import held, skipped
from tocsin.store.deliveries.claim import ReachedDevice
from tocsin.store.deliveries.fan_out import FannedOut, fan_out
from tocsin.store.deliveries.settle import UnsentDelivery
from tocsin.store.limits import Request, reserve
from tocsin.store.pool import Pool


class Target(msgspec.Struct, frozen=True):
    """A delivery at one device."""

    admitted: Admitted
    device: ReachedDevice
    aim: Aim


class Passed(msgspec.Struct, frozen=True):
    """What may leave, and what was stopped at the gate."""

    targets: list[Target]
    stopped: list[UnsentDelivery]


class Gate(msgspec.Struct, frozen=True):
    """Lets deliveries through as far as the limits allow. Costs nothing where none are set."""

    pool: Pool
    triage: Triage

    async def open(self, admitted: Sequence[Admitted], lease: LeaseId, now: datetime) -> Passed:
        """Count, fan out, count again by device."""
        requests = [Request(each.claimed.id, each.allowances) for each in admitted if each.allowances]
        full = await self._reserve(requests)
        stopped = [
            _beyond(aim_at(each.claimed, lease, each.steps), full[each.claimed.id], now)
            for each in admitted
            if each.claimed.id in full
        ]
        targets = await self._fan_out([each for each in admitted if each.claimed.id not in full], lease, now)
        return await self._by_device(targets, stopped, now)

    async def _reserve(self, requests: Sequence[Request]) -> dict[UUID, Allowance]:
        if not requests:
            return {}
        async with self.pool.acquire() as connection:
            return await reserve(connection, requests)

    async def _fan_out(self, admitted: Iterable[Admitted], lease: LeaseId, now: datetime) -> list[Target]:
        targets: list[Target] = []
        several: list[FannedOut] = []
        siblings: dict[UUID, Target] = {}
        for each in admitted:
            first, *others = each.devices
            counted = bool(each.allowances)
            aim = aim_at(each.claimed, lease, each.steps, first, counted=counted)
            targets.append(Target(each, first, aim))
            if others and first.id is not None:
                several.append(FannedOut(each.claimed.id, first.id, None))
            for device in others:
                if device.id is None:
                    continue
                sibling_id = new_delivery_id()
                several.append(FannedOut(each.claimed.id, device.id, sibling_id))
                aim = aim_at(each.claimed, lease, each.steps, device, sibling_id, counted=counted)
                siblings[sibling_id] = Target(each, device, aim)
        if several:
            async with self.pool.acquire() as connection:
                made = await fan_out(connection, several, lease, now)
            targets += [target for sibling_id, target in siblings.items() if sibling_id in made]
        return targets

    async def _by_device(self, targets: list[Target], stopped: list[UnsentDelivery], now: datetime) -> Passed:
        requests = [
            Request(target.aim.id, allowances)
            for target in targets
            if not target.admitted.claimed.reserved
            and not target.admitted.kind.policies.critical
            and (allowances := self.triage.device_allowances(target.admitted, target.device, now))
        ]
        full = await self._reserve(requests)
        counted = {request.delivery_id for request in requests}
        passed = []
        for target in targets:
            if target.aim.id in full:
                stopped.append(_beyond(target.aim, full[target.aim.id], now))
            elif target.aim.id in counted:
                passed.append(Target(target.admitted, target.device, replace(target.aim, reserved=True)))
            else:
                passed.append(target)
        return Passed(passed, stopped)


def _beyond(aim: Aim, full: Allowance, now: datetime) -> UnsentDelivery:
    """Skip or defer the one too many, by the policy of what is full.

    What is deferred asks for every place anew: it will count in the window in which it leaves.
    """
    unplaced = replace(aim, reserved=False)
    if full.beyond == "defer":
        step = Step(rule="limit", result="hold", detail=full.detail, at=now, until=full.ends_at)
        return held(unplaced.after(step), Hold((), until=full.ends_at), now)
    step = Step(rule="limit", result="skip", detail=full.detail, at=now)
    return skipped(unplaced.after(step), full.reason, now)
