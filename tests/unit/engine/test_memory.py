"""What a worker remembers of deliveries that it settled or sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from tests.unit.engine.attempts import LEASE, NOW, an_attempt
from tocsin.domain.ids import new_lease_id
from tocsin.engine.settle import writer as writers
from tocsin.engine.settle.settlements import settle_sent_barely, settle_untried
from tocsin.engine.settle.writer import SettlementWriter
from tocsin.store.deliveries.settle import Settled
from tocsin.store.pool import Pool


def a_writer() -> SettlementWriter:
    return SettlementWriter(
        cast("Pool", None), lambda: NOW, on_release=lambda: None, raise_alarm=lambda _: None
    )


def test_what_was_free_when_it_was_claimed_again_is_not_settled_from_memory() -> None:
    """Its settlement is written already: written again, it would spend an attempt without a send."""
    writer, attempt = a_writer(), an_attempt()
    writer.put(settle_untried(attempt, NOW))

    assert not writer.settle_known(attempt.id, new_lease_id(), taken_over=False)
    assert writer.settle_known(attempt.id, LEASE, taken_over=True)


class NoPool:
    """Stands for connections that a test's stand-in for the store does not use."""

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        yield None


@pytest.mark.parametrize(("later", "is_known"), [(timedelta(minutes=1), True), (timedelta(days=3), False)])
async def test_what_was_sent_under_a_lost_lease_is_remembered_for_a_while(
    monkeypatch: pytest.MonkeyPatch, *, later: timedelta, is_known: bool
) -> None:
    """Replayed days later, the delivery is another message: it must be sent."""
    monkeypatch.setattr(writers, "settle_sent", AsyncMock(return_value=Settled([], [])))
    times, attempt = [NOW], an_attempt()
    writer = SettlementWriter(
        cast("Pool", NoPool()), lambda: times[-1], on_release=lambda: None, raise_alarm=lambda _: None
    )
    writer.put(replace(settle_sent_barely(attempt), plain=True))
    writer.close()
    await asyncio.wait_for(writer.run(), 10)
    times.append(NOW + later)

    assert writer.settle_known(attempt.id, new_lease_id(), taken_over=False) is is_known
