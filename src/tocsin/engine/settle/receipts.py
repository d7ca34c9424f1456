"""Asks providers for the receipts of messages they took."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.domain.delivery.message import GivesReceipts, Provider
from tocsin.domain.delivery.outcome import Defer, Delivered, NotYet, Outcome, ReceiptOutcome, Retry
from tocsin.domain.ids import DeliveryId, LeaseId, new_lease_id
from tocsin.domain.people.profile import Destination
from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.attempt import LeasedDelivery
from tocsin.engine.duty import repeat
from tocsin.engine.health.circuit_breakers import CircuitBreakers
from tocsin.engine.settle.report import report_receipts
from tocsin.engine.settle.settlements import settle_outcome
from tocsin.engine.settle.writer import SettlementWriter
from tocsin.store.pool import Pool
from tocsin.store.tickets import Ticket, ask_again, confirm, drop_tickets, reopen, take_tickets

LEASE = timedelta(minutes=2)
AFTER_A_FAULT = timedelta(minutes=1)

_log = structlog.stdlib.get_logger(__name__)


class Receipts:
    """Asks one provider for the receipts of its tickets, batch by batch, as long as it keeps them."""

    def __init__(
        self,
        provider: Provider,
        *,
        pool: Pool,
        catalog: Catalog,
        writer: SettlementWriter,
        breakers: CircuitBreakers,
        clock: Clock,
        look_seconds: float,
    ) -> None:
        if not isinstance(provider, GivesReceipts):
            raise TypeError(f"{provider.name} gives no receipts")
        self._name = provider.name
        self._source: GivesReceipts = provider
        self._pool = pool
        self._catalog = catalog
        self._writer = writer
        self._breakers = breakers
        self._clock = clock
        self._look_seconds = look_seconds

    async def run(self) -> None:
        """Ask until cancelled."""
        await repeat(self._ask, name="receipts", every=self._look_seconds, subject=self._name)

    async def _ask(self) -> bool:
        """Ask for a batch of receipts; return whether more may be due."""
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
            return False
        try:
            answers = await self._source.receipts([ticket.message_id for ticket in tickets], now=now)
        except Exception as error:  # noqa: BLE001 - a provider's own mistake must not stop the worker
            _log.exception("provider failed", provider=self._name)
            answers = Retry("provider_failed", type(error).__name__)
        now = self._clock()
        if isinstance(answers, Sequence):
            await self._settle_receipts(tickets, answers, lease, now)
        else:
            await self._ask_later(tickets, answers, lease, now)
        return len(tickets) >= self._source.receipts_batch

    async def _ask_later(
        self, tickets: Sequence[Ticket], fault: Outcome, lease: LeaseId, now: datetime
    ) -> None:
        self._breakers.record(self._name, self._name, fault, now)
        wait = fault.after if isinstance(fault, Retry | Defer) else None
        async with self._pool.acquire() as connection:
            await ask_again(connection, _ids(tickets), lease, now + max(wait or AFTER_A_FAULT, AFTER_A_FAULT))

    async def _settle_receipts(
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
        report_receipts(
            self._name,
            delivered=_ids(delivered),
            refused=len(refused),
            not_yet=len(waiting),
            missing=len(over),
        )
        for ticket, outcome in refused:
            if ticket.delivery_id in taken_back:
                self._settle(ticket, outcome, lease, now)

    def _settle(self, ticket: Ticket, outcome: Outcome, lease: LeaseId, now: datetime) -> None:
        """Settle a delivery that a receipt reopened like any attempt with that outcome."""
        self._breakers.record(self._name, self._name, outcome, now)
        delivery = LeasedDelivery(
            id=DeliveryId(ticket.delivery_id),
            lease=lease,
            channel=ticket.channel,
            attempts=ticket.attempts - 1,
            retrying=True,
            reserved=True,
            digest_id=ticket.digest_id,
            type=self._catalog.find(ticket.type, ticket.version),
            destination=Destination(ticket.device_id, "", self._name, ""),
            tried_at=ticket.sent_at,
        )
        chance = random.random()  # noqa: S311 - spreads load, guards nothing
        self._writer.put(settle_outcome(delivery, outcome, now=now, random=chance))


def _ids(tickets: Sequence[Ticket]) -> list[UUID]:
    return [ticket.delivery_id for ticket in tickets]
