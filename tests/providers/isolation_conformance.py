"""What every provider owes the engine when one message of a batch is hostile."""

import asyncio
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

import pytest
import structlog
from msgspec.structs import replace

from tests.providers.rig import NOW, Rig, send_to
from tests.waiting import until
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Defer, Outcome, Rejected, Retry, Sent
from tocsin.sandbox import Hang

SECRET = "p0ison-s3cret"


class Poison(Mapping[str, Any]):
    """Content that no renderer can read: what it raises quotes a secret."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(SECRET)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError(SECRET)

    def __len__(self) -> int:
        raise RuntimeError(SECRET)


def poisoned(rig: Rig, name: str) -> Message:
    return replace(rig.message(name), data=Poison(), payload=Poison(), headers=Poison())


def is_about_the_message_alone(outcome: Outcome) -> bool:
    """Return whether an outcome counts against no circuit breaker and is not repeated without end."""
    match outcome:
        case Defer():
            return False
        case Retry(speaks_against=against):
            return against == "target"
        case _:
            return True


def sends_under_way() -> list[CodeType]:
    """List the tasks that run code of the providers."""
    codes = [task.get_coro().cr_code for task in asyncio.all_tasks()]  # type: ignore[union-attr]
    return [code for code in codes if "tocsin/providers" in code.co_filename]


class IsolationConformance:
    async def test_hostile_targets_harm_no_other_message(self, rig: Rig) -> None:
        hostile = rig.hostile_targets()
        messages = [rig.message("first"), *map(rig.message_to, hostile), rig.message("last")]

        first, *others, last = await rig.provider().send(messages, now=NOW)

        assert isinstance(first, Sent)
        assert isinstance(last, Sent)
        assert len(others) == len(hostile)
        assert [outcome for outcome in others if not is_about_the_message_alone(outcome)] == []

    async def test_a_hostile_target_alone_has_an_outcome(self, rig: Rig) -> None:
        provider = rig.provider()

        for target in rig.hostile_targets():
            (outcome,) = await provider.send([rig.message_to(target)], now=NOW)
            assert is_about_the_message_alone(outcome), (target[:80], outcome)

    async def test_an_exception_in_one_of_twenty_is_the_outcome_of_that_one(self, rig: Rig) -> None:
        batch = [rig.message(f"phone{number}") for number in range(20)]
        batch[7] = poisoned(rig, "phone7")

        with structlog.testing.capture_logs() as lines:
            outcomes = await rig.provider().send(batch, now=NOW)

        refused = outcomes[7]
        assert isinstance(refused, Rejected)
        assert (refused.code, refused.alarm) == ("internal_error", True)
        assert [type(each) for each in (*outcomes[:7], *outcomes[8:])] == [Sent] * 19
        assert rig.stats.delivered == 19
        (line,) = [line for line in lines if line["event"] == "message failed"]
        assert line["delivery_id"] == str(batch[7].delivery_id)
        assert line["correlation_id"] in refused.detail
        told = repr(lines) + repr(refused)
        assert SECRET not in told
        assert rig.target("phone7") not in told

    async def test_a_batch_cancelled_in_the_middle_leaves_nothing_behind(self, rig: Rig) -> None:
        provider = rig.provider(timeout_seconds=30.0)
        await send_to(rig, provider, "warm")
        rig.script("second", Hang())
        batch = [rig.message(name) for name in ("first", "second", "third")]
        sending = asyncio.create_task(provider.send(batch, now=NOW))
        await until(lambda: "HANG" in rig.stats.answers)

        assert sends_under_way()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        assert sends_under_way() == []
        assert isinstance(await send_to(rig, provider, "second"), Sent)
