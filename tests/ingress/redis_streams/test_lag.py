"""The gauge of a stream's lag is true at the moment when it is read."""

from collections.abc import Collection

import pytest

from tests.ingress.lags import reaches
from tests.ingress.redis_streams.conftest import STREAM, Galaxy
from tests.running import running
from tests.waiting import found, until
from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.engine.health.provider_health import Waiting
from tocsin.ingress.directory.lookup import DirectoryUnavailableError, People
from tocsin.ingress.redis_streams import consumer as module
from tocsin.ingress.redis_streams.reader import Entry, Look
from tocsin.store.sources.stream_offsets import Offset
from tocsin.telemetry.samples import read_samples
from tocsin.wire.streams.entry_ids import EntryId


class AwayDirectory:
    """A directory that never answers."""

    def __init__(self) -> None:
        self.calls = 0

    async def find(self, user_ids: Collection[str]) -> People:
        self.calls += 1
        raise DirectoryUnavailableError(f"{len(user_ids)} looked up")

    async def aclose(self) -> None:
        pass


def lag() -> float:
    value = read_samples()["tocsin_stream_lag_seconds"]["galaxy",]
    assert isinstance(value, float)
    return value


async def test_the_lag_of_an_entry_that_waits_grows_between_two_looks(
    galaxy: Galaxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKOFF", parse_backoff("exponential(60s, 60s, 2, 0)"))
    directory = AwayDirectory()
    entry_id = await galaxy.append("ada")
    appended = int(entry_id.partition("-")[0]) / 1_000

    async def age() -> float:
        seconds, microseconds = await galaxy.redis.time()
        return float(seconds) + float(microseconds) / 1_000_000 - appended

    async with galaxy.consuming(directory=directory):

        async def has_waited() -> bool:
            return directory.calls == 1 and await age() > 0.6

        await found(has_waited)
        assert lag() == pytest.approx(await age(), abs=0.2)


async def test_nothing_that_waits_is_no_lag(galaxy: Galaxy) -> None:
    async with galaxy.consuming():
        await galaxy.reaches(await galaxy.append())
        assert lag() == 0


async def test_what_waits_and_why_is_stored_by_the_reader_alone(galaxy: Galaxy) -> None:
    for number in range(3):
        await galaxy.append("ada", key=f"k{number}")
    reader = galaxy.consumer(directory=AwayDirectory())
    standby = galaxy.consumer()

    async with running(reader):
        shown = await reaches(galaxy.pool, reader.report, lambda each: each.state == "failing")
        async with running(standby):
            await until(lambda: standby.report.lag() is None)

    assert (shown.kind, shown.name, shown.stream) == ("stream", "galaxy", STREAM)
    assert (shown.waiting, shown.checkpoint) == (Waiting(3, or_more=False), "0-0")
    assert shown.lag_seconds is not None
    assert shown.last_error is not None
    assert "1 looked up" in shown.last_error


async def test_a_stream_that_was_read_to_its_end_has_no_lag(galaxy: Galaxy) -> None:
    consumer = galaxy.consumer()
    entry_id = await galaxy.append()

    async with running(consumer):
        await galaxy.reaches(entry_id)
        shown = await reaches(galaxy.pool, consumer.report, lambda each: each.progressed_at is not None)

    assert (shown.state, shown.checkpoint, shown.waiting) == ("reading", entry_id, Waiting(0, or_more=False))
    assert (shown.lag_seconds, shown.last_error, shown.entries_read) == (0, None, 1)


@pytest.mark.parametrize(
    ("offset", "added", "is_all", "waiting"),
    [
        (Offset("5-0", 7), 10, True, 2),
        (Offset("5-0", 7), 10, False, 3),
        (Offset("0-0", None), 10, False, 10),
        (Offset("5-0", None), 10, False, None),
        (Offset("5-0", 7), None, False, None),
        # Others were deleted by their ids.
        (Offset("5-0", 9), 10, False, 2),
    ],
)
def test_what_waits_is_counted_by_the_server(
    offset: Offset, added: int | None, *, is_all: bool, waiting: int | None
) -> None:
    entries = [Entry(f"{number}-0", {}) for number in (6, 7)]
    look = Look(entries, now_ms=9, added=added, gap=None, is_all=is_all, deleted=EntryId.parse("0-0"))

    assert look.waiting(offset) == waiting
