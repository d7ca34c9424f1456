"""What accepting, claiming and settling cost."""

import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import psutil

from tocsin.domain.delivery.states import State
from tocsin.domain.ids import new_delivery_id, new_lease_id, new_notification_id
from tocsin.domain.plan import PlannedDelivery
from tocsin.engine.clock import utc_now
from tocsin.store.deliveries.claim import START, Position, claim
from tocsin.store.deliveries.settle import SentDelivery, settle_sent
from tocsin.store.notifications import NewNotification, accept

BATCH = 100
USERS = 100_000
STRIDE = 7919
"""From one user to the next: all of them come in turn, and neighbours are far from each other."""


class Cost(msgspec.Struct):
    """Processor and wall time of some rows; `batches` are the wall times one by one."""

    rows: int = 0
    cpu: float = 0.0
    wall: float = 0.0
    batches: list[float] = []

    def __str__(self) -> str:
        """Format it per row."""
        rows = max(self.rows, 1)
        return f"{self.cpu / rows * 1e6:.1f} µs of CPU a row, {self.wall / rows * 1e6:.1f} µs of time"


class Hot:
    """Accepts, claims and settles on a connection of its own, as an API and a worker do."""

    def __init__(self, connection: asyncpg.Connection, backend: psutil.Process) -> None:
        self._connection = connection
        self._backend = backend
        self._after: Position = START
        self._numbers = itertools.count(1, STRIDE)

    async def measure(self, until: Callable[[int], bool]) -> dict[str, Cost]:
        """Take turns until told to stop; return the cost of each step."""
        costs = {"accept": Cost(), "claim": Cost(), "settle": Cost()}
        turn = 0
        while not until(turn):
            await self.turn(costs)
            turn += 1
        return costs

    async def turn(self, costs: dict[str, Cost]) -> None:
        """Accept, claim and settle one batch, and add what each step cost."""
        now, lease = utc_now(), new_lease_id()
        new = [_notification(now, f"user-{next(self._numbers) % USERS}") for _ in range(BATCH)]
        await self._counted(costs["accept"], accept(self._connection, new, ["fcm"], now))
        claimed = await self._counted(
            costs["claim"],
            claim(
                self._connection,
                "fcm",
                lease=lease,
                now=utc_now(),
                until=now + timedelta(minutes=5),
                after=self._after,
                limit=BATCH,
            ),
        )
        # As a worker does: the next claim continues where this one ended.
        self._after = Position(claimed[-1].due_at, claimed[-1].id)
        sent = [
            SentDelivery(
                id=each.id,
                lease=lease,
                provider="fcm",
                message_id="projects/bench/messages/0:1767225600000000%" + each.id.hex,
                device_id=next((device.id for device in each.profile.devices), None),
            )
            for each in claimed
        ]
        await self._counted(costs["settle"], settle_sent(self._connection, sent, utc_now()))

    async def _counted(self, cost: Cost, work: Awaitable[Any]) -> Any:
        cpu, wall = busy([self._backend]), time.perf_counter()
        result = await work
        cost.cpu += busy([self._backend]) - cpu
        cost.batches.append(time.perf_counter() - wall)
        cost.wall += cost.batches[-1]
        cost.rows += BATCH
        return result


def _notification(now: datetime, user_id: str) -> NewNotification:
    notification_id = new_notification_id()
    delivery = PlannedDelivery(
        id=new_delivery_id(), channel="push", user_id=user_id, lane="fcm", state=State.PENDING, due_at=now
    )
    return NewNotification(
        id=notification_id,
        producer="bench",
        idempotency_key=str(notification_id),
        type="new_customer",
        version=2,
        collapse_key=None,
        request_id=None,
        trace_id=None,
        occurred_at=None,
        send_at=None,
        send_at_local=None,
        expires_at=None,
        accepted_at=now,
        fingerprint=b"f",
        audience=f'{{"users": ["{user_id}"]}}'.encode(),
        payload=b'{"customer_name": "Ali Veli"}',
        deliveries=[delivery],
    )


def busy(backends: Sequence[psutil.Process]) -> float:
    """Sum the processor time of some backends."""
    return sum(map(_ran, backends))


def _ran(backend: psutil.Process) -> float:
    # Linux counts nanoseconds here; elsewhere in hundredths of a second, too coarse for a batch.
    if (exact := Path(f"/proc/{backend.pid}/schedstat")).exists():
        return int(exact.read_text().split()[0]) / 1e9
    times = backend.cpu_times()
    return float(times.user + times.system)
