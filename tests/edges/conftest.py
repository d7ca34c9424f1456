from collections.abc import AsyncIterator

import pytest

from tests.edges.edge import Edge, running, services
from tocsin.store.pool import Pool


@pytest.fixture
async def edge(pool: Pool) -> AsyncIterator[Edge]:
    async with running(services(pool)) as opened:
        yield opened
