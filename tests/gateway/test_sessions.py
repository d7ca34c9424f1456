"""Sessions whose end comes from several sides at once."""

import asyncio

import pytest

from tocsin.gateway.process import raise_file_limit
from tocsin.gateway.sessions import Ending, Person, Reset, Session
from tocsin.gateway.settings import GatewaySettings


@pytest.mark.parametrize("seconds", [0.0, 60.0])
async def test_a_session_that_is_interrupted_while_it_ends_ends_once(seconds: float) -> None:
    session = Session(Person("ada", None, seconds), "sse", GatewaySettings(queue_events=1))

    async def body() -> None:
        async with session.until_ended():
            await asyncio.sleep(60)

    running = asyncio.create_task(body())
    await asyncio.sleep(0)
    if seconds:
        session.interrupt(Ending.CLOSED_BY_CLIENT)
    # Whatever step its end has reached, further events and reasons come in.
    while not running.done():
        session.offer(Reset())
        session.interrupt(Ending.RESTART)
        await asyncio.sleep(0)

    assert running.exception() is None
    assert session.ending is not None
    if seconds:
        assert session.ending is Ending.CLOSED_BY_CLIENT


def test_the_file_limit_is_raised_no_further_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr("resource.setrlimit", lambda _, limits: given.append(limits))

    for wanted in (1_000, 2_000, 9_000):
        raise_file_limit(wanted)

    assert given == [(2_000, 4_096), (4_096, 4_096)]
