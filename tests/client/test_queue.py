"""Queueing: sent soon and together, bounded, nothing lost without a word."""

import threading
from collections.abc import Iterator

import pytest

from tocsin.client import AsyncTocsin, QueueFullError, QueueLimits, Tocsin, UnavailableError, UnsentError
from tocsin.client.exchange import Lost, Reply, Request
from tocsin.client.testing import FakeTocsin, RunningTocsin
from tocsin.client.testing.in_memory import InMemory

NEVER = QueueLimits(bound=3, linger_seconds=3_600)


class Line:
    """A line to a server in memory that can be cut, and tells how each request was carried."""

    def __init__(self) -> None:
        self.memory = InMemory()
        self.is_cut = False
        self.paths: list[str] = []
        self.carried = threading.Event()

    def carry(self, request: Request) -> Reply | Lost:
        self.paths.append(request.call.path)
        outcome = Lost("it is cut") if self.is_cut else self.memory.answer(request)
        self.carried.set()
        return outcome

    def close(self) -> None:
        """Hold nothing."""

    @property
    def keys(self) -> list[str]:
        return [each.idempotency_key for each in self.memory.notifications.recorded]


class AsyncLine:
    def __init__(self, line: Line) -> None:
        self._line = line

    async def carry(self, request: Request) -> Reply | Lost:
        return self._line.carry(request)

    async def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def patient(line: Line) -> Iterator[Tocsin]:
    """Give a client that sends nothing of its own accord."""
    with Tocsin("http://tocsin.invalid", "key", retries=0, queue_limits=NEVER, transport=line) as client:
        yield client


def _queue(client: Tocsin, count: int) -> list[str]:
    return [client.queue("new_customer", users=["42"]) for _ in range(count)]


def test_it_is_sent_soon_without_being_asked(line: Line) -> None:
    limits = QueueLimits(linger_seconds=0.01)
    with Tocsin("http://tocsin.invalid", "key", queue_limits=limits, transport=line) as client:
        key = client.queue("new_customer", users=["42"])
        assert line.carried.wait(10)

        assert line.keys == [key]


def test_a_full_batch_does_not_wait_for_company(line: Line) -> None:
    limits = QueueLimits(linger_seconds=3_600)
    with Tocsin("http://tocsin.invalid", "key", queue_limits=limits, transport=line) as client:
        _queue(client, 1_000)

        assert line.carried.wait(10)


def test_what_is_queued_is_sent_together_in_order(line: Line, patient: Tocsin) -> None:
    keys = _queue(patient, 3)
    assert line.paths == []

    patient.flush()

    assert (line.paths, line.keys) == (["/v1/notifications/batch"], keys)


def test_closing_sends_what_is_queued(line: Line) -> None:
    with Tocsin("http://tocsin.invalid", "key", queue_limits=NEVER, transport=line) as client:
        keys = _queue(client, 2)

    assert line.keys == keys
    with pytest.raises(RuntimeError, match="closed"):
        client.queue("new_customer", users=["42"])


def test_a_full_queue_sends_first_and_takes_more_then(line: Line, patient: Tocsin) -> None:
    keys = _queue(patient, 4)

    assert line.keys == keys[:3]


def test_a_full_queue_with_the_line_cut_says_so_and_loses_nothing(line: Line, patient: Tocsin) -> None:
    keys = _queue(patient, 3)
    line.is_cut = True

    with pytest.raises(QueueFullError, match="outbox") as full:
        patient.queue("new_customer", users=["42"])

    assert isinstance(full.value.__cause__, UnavailableError)
    line.is_cut = False
    patient.flush()
    assert line.keys == keys


def test_flushing_tells_of_trouble_and_keeps_what_waits(line: Line, patient: Tocsin) -> None:
    keys = _queue(patient, 2)
    line.is_cut = True
    with pytest.raises(UnavailableError, match="it is cut"):
        patient.flush()

    line.is_cut = False
    patient.flush()

    assert line.keys == keys


def test_flushing_names_what_was_refused_once(line: Line, patient: Tocsin) -> None:
    bad, good = patient.queue("new_customer"), patient.queue("new_customer", users=["42"])

    with pytest.raises(UnsentError, match=bad) as unsent:
        patient.flush()

    [refusal] = unsent.value.refused
    assert (refusal.intent.idempotency_key, refusal.answer.status) == (bad, "invalid")
    assert line.keys == [good]
    patient.flush()


def test_closing_gives_back_what_could_not_be_sent(line: Line) -> None:
    client = Tocsin("http://tocsin.invalid", "key", retries=0, queue_limits=NEVER, transport=line)
    keys = _queue(client, 2)
    line.is_cut = True

    with pytest.raises(UnsentError, match="can be sent again") as unsent:
        client.close()

    assert [intent.idempotency_key for intent in unsent.value.unsent] == keys


def test_trouble_in_the_background_is_tried_again(line: Line) -> None:
    limits = QueueLimits(linger_seconds=0.01, trouble_seconds=0.01)
    line.is_cut = True
    with Tocsin("http://tocsin.invalid", "key", retries=0, queue_limits=limits, transport=line) as client:
        key = client.queue("new_customer", users=["42"])
        assert line.carried.wait(10)
        line.is_cut = False
        line.carried.clear()
        assert line.carried.wait(10)

    assert line.keys == [key]


def test_many_threads_may_queue_at_once(line: Line) -> None:
    limits = QueueLimits(bound=50, linger_seconds=0.001)
    with Tocsin("http://tocsin.invalid", "key", queue_limits=limits, transport=line) as client:
        threads = [threading.Thread(target=_queue, args=(client, 200)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(set(line.keys)) == len(line.keys) == 1_000


async def test_an_event_loop_queues_the_same_way(line: Line) -> None:
    async with AsyncTocsin(
        "http://tocsin.invalid", "key", retries=0, queue_limits=NEVER, transport=AsyncLine(line)
    ) as client:
        keys = [await client.queue("new_customer", users=["42"]) for _ in range(4)]
        assert line.keys == keys[:3]
        line.is_cut = True
        with pytest.raises(UnavailableError):
            await client.flush()
        line.is_cut = False

    assert line.keys == keys


async def test_an_event_loop_gives_back_what_could_not_be_sent(line: Line) -> None:
    client = AsyncTocsin(
        "http://tocsin.invalid", "key", retries=0, queue_limits=NEVER, transport=AsyncLine(line)
    )
    key = await client.queue("new_customer", users=["42"])
    line.is_cut = True

    with pytest.raises(UnsentError) as unsent:
        await client.close()

    assert [intent.idempotency_key for intent in unsent.value.unsent] == [key]


async def test_an_event_loop_sends_soon_without_being_asked(tocsin_server: RunningTocsin) -> None:
    async with tocsin_server.async_client(queue_limits=QueueLimits(linger_seconds=0.01)) as client:
        key = await client.queue("new_customer", users=["42"], payload={"customer_name": "Ada"})
        await client.flush()

        cancelled = await client.cancel_by_key(key)
        assert (await client.show(cancelled.notification_id)).idempotency_key == key


def test_what_a_program_forgot_to_close_is_sent_at_its_end(tocsin_server: RunningTocsin) -> None:
    import os
    import subprocess
    import sys

    code = f"""
import os
from tocsin.client import QueueLimits, Tocsin
client = Tocsin({tocsin_server.base_url!r}, os.environ["KEY"], queue_limits=QueueLimits(linger_seconds=3600))
print(client.queue("new_customer", users=["42"], payload={{"customer_name": "Ada"}}))
"""
    environment = {**os.environ, "KEY": tocsin_server.api_key}
    key = subprocess.check_output([sys.executable, "-c", code], env=environment, timeout=60, text=True)

    with tocsin_server.client() as client:
        cancelled = client.cancel_by_key(key.strip())
        assert client.show(cancelled.notification_id).idempotency_key == key.strip()


def test_the_fake_counts_what_was_flushed(tocsin_fake: FakeTocsin) -> None:
    tocsin_fake.queue("new_customer", users=["42"])

    tocsin_fake.flush()

    assert tocsin_fake.only(type="new_customer").audience == {"users": ["42"]}
