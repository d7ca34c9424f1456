from collections.abc import AsyncIterator

import pytest

from tests.aws.publisher.office import Office, Publishing, opened_office
from tests.aws.publisher.stand_in import StandInTopic
from tests.catalogs import shipped
from tests.engine.stage import MovableClock
from tocsin.store.pool import Pool


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def office(server_url: str) -> AsyncIterator[Office]:
    """Give an application with a table of fisa's shape."""
    async with opened_office(server_url) as opened:
        yield opened


@pytest.fixture
async def topic(clock: MovableClock) -> AsyncIterator[StandInTopic]:
    async with StandInTopic(clock).served() as served:
        yield served


@pytest.fixture
def publishing(pool: Pool, office: Office, topic: StandInTopic, clock: MovableClock) -> Publishing:
    """Give a publisher to the topic that can fail."""
    return Publishing(pool, shipped(), office, topic.url, clock)
