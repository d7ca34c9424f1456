"""Dispatch: claim what is due, send it, hand the outcome on to be settled."""

import asyncio
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import Policies
from tocsin.domain.ids import LeaseId
from tocsin.domain.message import Message, Provider
from tocsin.domain.outcome import Defer, Outcome, Rejected, Retry, Sent
from tocsin.domain.reasons import Reason
from tocsin.domain.recipient import route_id
from tocsin.engine.claim import Claim, Claimer
from tocsin.engine.clock import Clock
from tocsin.engine.pause import Pauses
from tocsin.engine.prepare import Prepared, is_expired, prepare
from tocsin.engine.settle import Settler
from tocsin.engine.verdict import bury, expire, settlement, skip
from tocsin.engine.wake import Wake
from tocsin.store.claims import ClaimedDelivery
from tocsin.store.deliveries import UnsentDelivery
from tocsin.store.pool import DATABASE_FAULTS

CLAIM_SHARE = 4
"""A claim waits until a quarter of the capacity is free, so that claims stay large under load."""

_log = structlog.stdlib.get_logger(__name__)


class DispatchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker claims."""

    lease_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    poll_seconds: Annotated[float, Meta(gt=0, le=300)] = 1.0
    stop_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0


class _Ready(msgspec.Struct, frozen=True):
    claimed: ClaimedDelivery
    policies: Policies
    message: Message


class Dispatcher:
    """Sends the due pushes of one worker process."""

    def __init__(
        self,
        *,
        claimer: Claimer,
        settler: Settler,
        wake: Wake,
        catalog: Catalog,
        providers: Mapping[str, Provider],
        settings: DispatchSettings,
        clock: Clock,
    ) -> None:
        self._claimer = claimer
        self._settler = settler
        self._wake = wake
        self._catalog = catalog
        self._providers = providers
        self._settings = settings
        self._clock = clock
        self._pauses = Pauses()
        self._sending: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._room = asyncio.Event()
        self._stopping = False
        self._capacity = sum(provider.concurrency for provider in providers.values())
        settler.on_taken(self._room.set)

    async def run(self) -> None:
        """Claim and send until told to stop, then wait for what is under way."""
        while not self._stopping:
            if rest := self._pauses.shortest(self._providers, self._clock()):
                await self._wake.wait(min(rest.total_seconds(), self._settings.poll_seconds))
                continue
            free = await self._free_capacity()
            claim = await self._claim(free) if free else None
            if claim is None or not claim.deliveries:
                await self._wake.wait(self._settings.poll_seconds)
                continue
            self._send_all(claim)
        await asyncio.gather(*self._sending)

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self._room.set()
        self._wake.set()

    async def _free_capacity(self) -> int:
        enough = max(1, self._capacity // CLAIM_SHARE)
        while not self._stopping:
            free = self._capacity - self._under_way
            if free >= enough and self._settler.backlog <= 4 * self._capacity:
                return free
            self._room.clear()
            await self._room.wait()
        return 0

    async def _claim(self, limit: int) -> Claim | None:
        try:
            return await self._claimer.claim(limit)
        except DATABASE_FAULTS as error:
            _log.warning("claiming failed, trying again", error=repr(error))
            return None

    def _send_all(self, claim: Claim) -> None:
        by_provider: dict[str, list[_Ready]] = {}
        now = self._clock()
        for claimed in claim.deliveries:
            if ready := self._prepare(claimed, claim.lease, now):
                by_provider.setdefault(claimed.provider or "", []).append(ready)
        for name, waiting in by_provider.items():
            provider = self._providers[name]
            for batch in _chunks(waiting, provider.limits.batch):
                self._under_way += len(batch)
                task = asyncio.create_task(self._send(provider, batch, claim.lease, now))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    def _prepare(self, claimed: ClaimedDelivery, lease: LeaseId, now: datetime) -> _Ready | None:
        """Give the message of a delivery, or settle at once what needs none."""
        if claimed.rescued:
            _log.warning("lease expired, taken over", **_names(claimed), attempts=claimed.attempts)
        if is_expired(claimed, now):
            self._settle_untried(claimed, expire(claimed, lease, now))
        elif claimed.device_id is None:
            self._settle_untried(claimed, skip(claimed, lease, Reason.NO_DEVICE, now))
        elif claimed.token is None or claimed.provider is None:
            self._settle_untried(claimed, skip(claimed, lease, Reason.DEVICE_LOST, now))
        elif claimed.provider not in self._providers:
            self._settle_untried(claimed, skip(claimed, lease, Reason.PROVIDER_UNAVAILABLE, now))
        else:
            return self._rendered(claimed, claimed.token, lease, now)
        return None

    def _rendered(self, claimed: ClaimedDelivery, token: str, lease: LeaseId, now: datetime) -> _Ready | None:
        match prepare(self._catalog, claimed, token):
            case Prepared(kind=kind, message=message):
                if claimed.rescued and claimed.attempts >= kind.policies.attempts_for(claimed.channel):
                    self._settle_untried(claimed, bury(claimed, lease, now))
                    return None
                return _Ready(claimed, kind.policies, message)
            case rejected:
                self._settle(claimed, lease, rejected, Policies(), tried_at=now, now=now)
                return None

    async def _send(self, provider: Provider, batch: Sequence[_Ready], lease: LeaseId, now: datetime) -> None:
        try:
            if rest := self._pauses.left(provider.name, now):
                outcomes: Sequence[Outcome] = [Defer("provider_paused", rest, pauses=False)] * len(batch)
            else:
                outcomes = await provider.send([ready.message for ready in batch], now=now)
                if len(outcomes) != len(batch):
                    raise RuntimeError(f"{len(outcomes)} outcomes for {len(batch)} messages")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - a provider's own mistake must not stop the worker
            _log.exception("provider failed", provider=provider.name)
            outcomes = [Retry("provider_failed", type(error).__name__)] * len(batch)
        answered_at = self._clock()
        for ready, outcome in zip(batch, outcomes, strict=True):
            self._settle(ready.claimed, lease, outcome, ready.policies, tried_at=now, now=answered_at)
        self._under_way -= len(batch)
        self._room.set()

    def _settle(
        self,
        claimed: ClaimedDelivery,
        lease: LeaseId,
        outcome: Outcome,
        policies: Policies,
        *,
        tried_at: datetime,
        now: datetime,
    ) -> None:
        settled = settlement(
            claimed,
            lease,
            outcome,
            provider=claimed.provider,
            policies=policies,
            tried_at=tried_at,
            now=now,
            random=random.random(),  # noqa: S311 - spreads load, guards nothing
        )
        self._settler.put(settled)
        if isinstance(outcome, Defer) and claimed.provider:
            self._pauses.note(claimed.provider, outcome, now)
        if not isinstance(outcome, Sent) and isinstance(settled, UnsentDelivery):
            # A device of another sender means that an app or the settings name the wrong project.
            alarm = isinstance(outcome, Rejected) and outcome.quarantine
            _log.log(
                logging.ERROR if alarm else logging.INFO,
                "attempt failed",
                **_names(claimed),
                state=settled.state,
                code=settled.code,
                detail=settled.detail,
            )

    def _settle_untried(self, claimed: ClaimedDelivery, settled: UnsentDelivery) -> None:
        self._settler.put(settled)
        _log.info(
            "not sent", **_names(claimed), state=settled.state, reason=settled.reason, code=settled.code
        )


def _chunks(ready: list[_Ready], size: int) -> Iterator[list[_Ready]]:
    for start in range(0, len(ready), size):
        yield ready[start : start + size]


def _names(claimed: ClaimedDelivery) -> dict[str, object]:
    return {
        "notification_id": str(claimed.notification_id),
        "type": claimed.type,
        "producer": claimed.producer,
        "delivery_id": str(claimed.id),
        "route_id": route_id(claimed.channel, _recipient(claimed)),
        "channel": claimed.channel,
        "request_id": claimed.request_id,
        "trace_id": claimed.trace_id,
    }


def _recipient(claimed: ClaimedDelivery) -> str:
    return f"user:{claimed.user_id}" if claimed.user_id else f"email:{claimed.address}"
