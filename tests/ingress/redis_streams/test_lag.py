"""The gauge of a stream's lag is true at the moment when it is read."""

from collections.abc import Collection

import pytest

from tests.ingress.redis_streams.conftest import Galaxy
from tests.waiting import found
from tocsin.domain.delivery.backoff import parse_backoff
from tocsin.ingress.directory.lookup import DirectoryUnavailableError, People
from tocsin.ingress.redis_streams import consumer as module
from tocsin.telemetry.samples import read_samples


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
