"""A provider, a row or a digest that raises is the fault of one delivery, and of no circuit breaker."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.engine.stage import BatchProvider, Stage, StubProvider
from tests.waiting import found, until
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Outcome
from tocsin.engine.dispatch import digest
from tocsin.store.deliveries.digests import close
from tocsin.store.pool import Connection

SECOND = timedelta(seconds=1)
OTHERS = [f"user{number}" for number in range(7)]


class ForeignProvider(BatchProvider):
    """Raises for a whole batch in which there is a message to `odd`, before it takes any of it."""

    error: BaseException = RuntimeError("the token is odd")

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        if any(message.target == "odd" for message in batch):
            raise self.error
        return await super().send(batch, now=now)


class ShortProvider(BatchProvider):
    """Returns an outcome too few."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        outcomes = await super().send(batch, now=now)
        return outcomes if len(batch) == 1 else outcomes[1:]


async def accept_all(stage: Stage, *names: str, **changes: Any) -> UUID:
    for name in names:
        await stage.device(name)
    return await stage.accept(*names, **{"type": "plain", "payload": {}} | changes)


async def ends(stage: Stage, *names: str) -> dict[str, tuple[str, str | None]]:
    """Wait until the deliveries of some people are settled; return all by person, with the last error."""

    async def look() -> dict[str, tuple[str, str | None]]:
        rows = await stage.pool.fetch("select * from deliveries where notification_id is not null")
        settled = {row["user_id"] for row in rows if row["settled_at"]}
        return (
            {row["user_id"]: (row["state"], row["last_error_code"]) for row in rows}
            if settled >= set(names)
            else {}
        )

    return await found(look)


@pytest.mark.parametrize("error", [RuntimeError("the token is odd"), asyncio.CancelledError()])
async def test_a_provider_that_raises_for_a_batch_fails_one_message_of_it(
    stage: Stage, error: BaseException
) -> None:
    provider = ForeignProvider()
    provider.error = error
    notification_id = await accept_all(stage, "odd", *OTHERS)
    async with stage.working(provider):
        ended = await ends(stage, *OTHERS)

        async def tried() -> bool:
            return await stage.attempts() != []

        await found(tried)
        rows = {row["user_id"]: row for row in await stage.deliveries(notification_id)}

    assert {name: ended[name] for name in OTHERS} == dict.fromkeys(OTHERS, ("sent", None))
    assert {rows[name]["attempts"] for name in OTHERS} == {1}
    assert set(provider.counts().values()) == {1}
    assert (rows["odd"]["state"], rows["odd"]["last_error_code"]) == ("retrying", "provider_failed")
    assert await stage.attempts() == [("retry", "provider_failed")]


async def test_a_provider_with_an_outcome_too_few_is_asked_for_each_message_by_itself(stage: Stage) -> None:
    names = OTHERS[:4]
    await accept_all(stage, *names)
    async with stage.working(ShortProvider()):
        assert await ends(stage, *names) == dict.fromkeys(names, ("sent", None))

    assert await stage.attempts() == []


async def test_a_provider_whose_code_raises_opens_no_circuit(stage: Stage) -> None:
    """The same number of answers that it is down would open it."""
    provider = StubProvider()
    names = [f"odd{number}" for number in range(30)]
    for name in names:
        provider.script(name, RuntimeError("a bug"))
    await accept_all(stage, *names, "ada")
    async with stage.working(provider):

        async def tried() -> bool:
            return len(await stage.attempts()) == len(names)

        await found(tried)
        await ends(stage, "ada")
        stage.clock.advance(20 * SECOND)
        assert await ends(stage, *names) == dict.fromkeys(names, ("sent", "provider_failed")) | {
            "ada": ("sent", None)
        }
        assert await stage.pool.fetchval("select count(*) from circuits") == 0

    assert set(await stage.attempts()) == {("retry", "provider_failed")}


class CancelledOnce(StubProvider):
    """Its first send is cancelled by somebody from outside, as when a process is torn down in part."""

    is_cancelled = False

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        if not self.is_cancelled:
            self.is_cancelled = True
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        return await super().send(batch, now=now)


async def test_a_send_that_is_cancelled_leaves_room_and_is_taken_over(stage: Stage) -> None:
    """Its delivery is left to its lease; the only place of the provider is free for the next one at once."""
    provider = CancelledOnce(concurrency=1)
    first = await accept_all(stage, "odd")
    async with stage.working(provider):
        await until(lambda: provider.is_cancelled)
        second = await accept_all(stage, "ada", idempotency_key="second")
        await stage.settled(second, "sent")
        stage.clock.advance(31 * SECOND)
        await stage.settled(first, "sent")

    assert set(provider.counts().values()) == {1}


async def test_a_claimed_row_that_cannot_be_decoded_is_rejected_and_the_others_are_sent(
    stage: Stage,
) -> None:
    """Two messages with one collapse key; the time to live of the newer one is no time."""
    older = await accept_all(stage, "odd", collapse_key="k")
    await stage.accept("odd", type="plain", payload={}, collapse_key="k", idempotency_key="newer")
    await stage.pool.execute("update notifications set expires_at = 'infinity' where id <> $1", older)
    others = await accept_all(stage, *OTHERS, idempotency_key="others")
    async with stage.working(StubProvider()):
        (odd,) = await stage.settled(older, "rejected")
        rows = await stage.settled(others, "sent")

    assert (odd["last_error_code"], odd["attempts"]) == ("internal_error", 1)
    assert {row["attempts"] for row in rows} == {1}


async def test_a_digest_that_the_database_refuses_is_rejected_and_the_others_are_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await accept_all(stage, "odd", *OTHERS, type="collected")
    odd = await stage.pool.fetchval("select digest_id from deliveries where user_id = 'odd' limit 1")

    async def refusing(connection: Connection, digest_ids: Sequence[UUID], now: datetime) -> Any:
        if odd in digest_ids:
            raise asyncpg.DataError("invalid input")
        return await close(connection, digest_ids, now)

    monkeypatch.setattr(digest, "close", refusing)
    stage.clock.advance(3 * SECOND)
    async with stage.working(StubProvider()):
        ended = await ends(stage, "odd", *OTHERS)

    assert ended.pop("odd") == ("rejected", "internal_error")
    assert Counter(ended.values()) == Counter({("sent", None): len(OTHERS)})
