import asyncio

import pytest

from tests.providers.rig import a_message
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Outcome, Rejected, Sent
from tocsin.providers.isolation import send_each


async def send_one(message: Message) -> Outcome:
    if message.target == "raises":
        raise UnicodeError("label empty or too long")
    if message.target == "gives up":
        raise asyncio.CancelledError
    if message.target == "hangs":
        await asyncio.Event().wait()
    await asyncio.sleep(0)
    return Sent(message.target)


async def outcomes_of(*targets: str) -> list[Outcome]:
    return list(await send_each("stub", [a_message(target) for target in targets], send_one))


async def test_each_message_has_its_outcome_in_order() -> None:
    first, raised, last = await outcomes_of("first", "raises", "last")

    assert (first, last) == (Sent("first"), Sent("last"))
    assert isinstance(raised, Rejected)
    assert (raised.code, raised.alarm) == ("internal_error", True)
    assert raised.detail.startswith("UnicodeError; correlation id ")


@pytest.mark.parametrize("targets", [("gives up",), ("first", "gives up", "last")])
async def test_a_cancellation_from_within_is_the_outcome_of_one_message(targets: tuple[str, ...]) -> None:
    outcomes = await outcomes_of(*targets)

    assert [isinstance(outcome, Rejected) for outcome in outcomes] == [name == "gives up" for name in targets]


@pytest.mark.parametrize("targets", [("hangs",), ("first", "hangs")])
async def test_a_cancelled_batch_is_cancelled(targets: tuple[str, ...]) -> None:
    sending = asyncio.create_task(outcomes_of(*targets))
    await asyncio.sleep(0)

    sending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sending
