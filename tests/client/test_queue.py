"""Queueing: sent soon and together, bounded, nothing lost without a word."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.waiting import until
from tocsin.client import AsyncTocsin, QueueFullError, QueueLimits, Tocsin, UnavailableError, UnsentError
from tocsin.client.exchange import ApiReply, ClientRequest, NoReply
from tocsin.client.testing import FakeTocsin
from tocsin.client.testing.recording import Recording

NEVER = QueueLimits(bound=3, linger_seconds=3_600)


class Line:
    """A transport with a recording that can be cut, and tells when each request was sent."""

    def __init__(self) -> None:
        self.recording = Recording()
        self.is_cut = False
        self.paths: list[str] = []
        self.reached = threading.Event()

    def send(self, request: ClientRequest) -> ApiReply | NoReply:
        self.paths.append(request.call.path)
        outcome = NoReply("it is cut") if self.is_cut else self.recording.send(request)
        self.reached.set()
        return outcome

    def close(self) -> None:
        """Hold nothing."""

    @property
    def keys(self) -> list[str]:
        return [each.idempotency_key for each in self.recording.notifications]


class AsyncLine:
    def __init__(self, line: Line) -> None:
        self._line = line

    async def send(self, request: ClientRequest) -> ApiReply | NoReply:
        return self._line.send(request)

    async def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def patient(line: Line) -> Iterator[Tocsin]:
    """Return a client that sends only when it is flushed or full."""
    with Tocsin("http://tocsin.invalid", "key", retries=0, queue_limits=NEVER, transport=line) as client:
        yield client


def _queue(client: Tocsin, count: int) -> list[str]:
    return [client.queue("new_customer", users=["42"]) for _ in range(count)]


def test_it_is_sent_soon_without_being_asked(line: Line) -> None:
    limits = QueueLimits(linger_seconds=0.01)
    with Tocsin("http://tocsin.invalid", "key", queue_limits=limits, transport=line) as client:
        key = client.queue("new_customer", users=["42"])
        assert line.reached.wait(10)

        assert line.keys == [key]


def test_a_full_batch_does_not_wait_for_company(line: Line) -> None:
    limits = QueueLimits(linger_seconds=3_600)
    with Tocsin("http://tocsin.invalid", "key", queue_limits=limits, transport=line) as client:
        _queue(client, 1_000)

        assert line.reached.wait(10)


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
    assert (refusal.intent.key, refusal.answer.status) == (bad, "invalid")
    assert line.keys == [good]
    patient.flush()


def test_closing_gives_back_what_could_not_be_sent(line: Line) -> None:
    client = Tocsin("http://tocsin.invalid", "key", retries=0, queue_limits=NEVER, transport=line)
    keys = _queue(client, 2)
    line.is_cut = True

    with pytest.raises(UnsentError, match="can be sent again") as unsent:
        client.close()

    assert [intent.key for intent in unsent.value.unsent] == keys


def test_trouble_in_the_background_is_tried_again(line: Line) -> None:
    limits = QueueLimits(linger_seconds=0.01, trouble_seconds=0.01)
    line.is_cut = True
    with Tocsin("http://tocsin.invalid", "key", retries=0, queue_limits=limits, transport=line) as client:
        key = client.queue("new_customer", users=["42"])
        assert line.reached.wait(10)
        line.is_cut = False
        line.reached.clear()
        assert line.reached.wait(10)

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


def test_what_cannot_be_written_is_told_to_whoever_queues_it(line: Line, patient: Tocsin) -> None:
    with pytest.raises(TypeError):
        patient.queue("new_customer", users=["42"], payload={"when": object()})
    key = patient.queue("new_customer", users=["42"])

    patient.flush()

    assert line.keys == [key]


def test_what_happens_to_a_payload_later_does_not_count(line: Line, patient: Tocsin) -> None:
    payload = {"customer_name": "Ada"}
    patient.queue("new_customer", users=["42"], payload=payload)
    payload["customer_name"] = "somebody else"

    patient.flush()

    [recorded] = line.recording.notifications
    assert recorded.payload == {"customer_name": "Ada"}


async def test_a_flush_that_is_cancelled_loses_nothing(line: Line) -> None:
    stuck, reached = AsyncLine(line), asyncio.Event()

    async def hang(_: ClientRequest) -> ApiReply:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with AsyncTocsin("http://tocsin.invalid", "key", queue_limits=NEVER, transport=stuck) as client:
        keys = [await client.queue("new_customer", users=["42"]) for _ in range(2)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stuck, "send", hang)
            flushing = asyncio.create_task(client.flush())
            await reached.wait()
            flushing.cancel()
            await asyncio.wait([flushing])

    assert line.keys == keys


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

    assert [intent.key for intent in unsent.value.unsent] == [key]


async def test_an_event_loop_sends_soon_without_being_asked(line: Line) -> None:
    limits = QueueLimits(linger_seconds=0.01)
    async with AsyncTocsin(
        "http://tocsin.invalid", "key", queue_limits=limits, transport=AsyncLine(line)
    ) as client:
        key = await client.queue("new_customer", users=["42"])

        await until(lambda: line.keys == [key])


def test_the_fake_counts_what_was_flushed(tocsin_fake: FakeTocsin) -> None:
    tocsin_fake.queue("new_customer", users=["42"])

    tocsin_fake.flush()

    assert tocsin_fake.only(type="new_customer").audience == {"users": ["42"]}
