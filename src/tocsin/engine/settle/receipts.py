"""Receipts: asks providers later what became of the messages they took."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID

import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import Channel, Policies
from tocsin.domain.delivery.message import GivesReceipts, Provider
from tocsin.domain.delivery.outcome import Defer, Delivered, NotYet, Outcome, ReceiptOutcome, Retry
from tocsin.domain.ids import LeaseId, new_lease_id
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.attempt import Aim
from tocsin.engine.health.circuit_breakers import Circuits
from tocsin.engine.settle.settlements import settlement
from tocsin.engine.settle.writer import Settler
from tocsin.store.pool import DATABASE_FAULTS, Pool
from tocsin.store.tickets import Ticket, ask_again, confirm, drop_tickets, reopen, take_tickets

LEASE = timedelta(minutes=2)
AFTER_A_FAULT = timedelta(minutes=1)

_log = structlog.stdlib.get_logger(__name__)


class Receipts:
    """Asks one provider about its tickets, batch by batch, as long as it keeps their receipts."""

    def __init__(
        self,
        provider: Provider,
        *,
        pool: Pool,
        catalog: Catalog,
        settler: Settler,
        circuits: Circuits,
        clock: Clock,
        look_seconds: float,
    ) -> None:
        if not isinstance(provider, GivesReceipts):
            raise TypeError(f"{provider.name} gives no receipts")
        self._name = provider.name
        self._source: GivesReceipts = provider
        self._pool = pool
        self._catalog = catalog
        self._settler = settler
        self._circuits = circuits
        self._clock = clock
        self._look_seconds = look_seconds

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            try:
                asked = await self._ask()
            except DATABASE_FAULTS as error:
                _log.warning("asking for receipts failed, trying again", error=repr(error))
                asked = 0
            if asked < self._source.receipts_batch:
                await asyncio.sleep(self._look_seconds)

    async def _ask(self) -> int:
        lease, now = new_lease_id(), self._clock()
        async with self._pool.acquire() as connection:
            tickets = await take_tickets(
                connection,
                self._name,
                lease=lease,
                now=now,
                until=now + LEASE,
                limit=self._source.receipts_batch,
            )
        if not tickets:
            return 0
        try:
            answers = await self._source.receipts([ticket.message_id for ticket in tickets], now=now)
        except Exception as error:  # noqa: BLE001 - a provider's own mistake must not stop the worker
            _log.exception("provider failed", provider=self._name)
            answers = Retry("provider_failed", type(error).__name__)
        now = self._clock()
        if isinstance(answers, Sequence):
            await self._take_in(tickets, answers, lease, now)
        else:
            await self._ask_later(tickets, answers, lease, now)
        return len(tickets)

    async def _ask_later(
        self, tickets: Sequence[Ticket], fault: Outcome, lease: LeaseId, now: datetime
    ) -> None:
        self._circuits.note(self._name, self._name, fault, now)
        wait = fault.after if isinstance(fault, Retry | Defer) else None
        async with self._pool.acquire() as connection:
            await ask_again(connection, _ids(tickets), lease, now + max(wait or AFTER_A_FAULT, AFTER_A_FAULT))

    async def _take_in(
        self, tickets: Sequence[Ticket], answers: Sequence[ReceiptOutcome], lease: LeaseId, now: datetime
    ) -> None:
        delivered: list[Ticket] = []
        missing: list[Ticket] = []
        refused: list[tuple[Ticket, Outcome]] = []
        for ticket, answer in zip(tickets, answers, strict=True):
            match answer:
                case Delivered():
                    delivered.append(ticket)
                case NotYet():
                    missing.append(ticket)
                case _:
                    refused.append((ticket, answer))
        over = [ticket for ticket in missing if now - ticket.sent_at >= self._source.receipts_kept]
        waiting = [ticket for ticket in missing if now - ticket.sent_at < self._source.receipts_kept]
        async with self._pool.acquire() as connection, connection.transaction():
            await confirm(connection, _ids(delivered), lease)
            await drop_tickets(connection, _ids(over), lease)
            await ask_again(connection, _ids(waiting), lease, now + self._source.receipts_after)
            taken_back = await reopen(connection, _ids([ticket for ticket, _ in refused]), lease, now + LEASE)
        for ticket, outcome in refused:
            if ticket.delivery_id in taken_back:
                self._settle(ticket, outcome, lease, now)

    def _settle(self, ticket: Ticket, outcome: Outcome, lease: LeaseId, now: datetime) -> None:
        """Settle what a receipt took back like any attempt that came to the same."""
        self._circuits.note(self._name, self._name, outcome, now)
        kind = self._catalog.find(ticket.type, ticket.version)
        aim = Aim(
            id=ticket.delivery_id,
            lease=lease,
            channel=cast("Channel", ticket.channel),
            attempts=ticket.attempts - 1,
            device_id=None,
            provider=self._name,
            reserved=True,
            steps=(),
        )
        chance = random.random()  # noqa: S311 - spreads load, guards nothing
        self._settler.put(
            settlement(
                aim,
                outcome,
                policies=kind.policies if kind else Policies(),
                tried_at=ticket.sent_at,
                now=now,
                random=chance,
            )
        )


def _ids(tickets: Sequence[Ticket]) -> list[UUID]:
    return [ticket.delivery_id for ticket in tickets]
