from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from tests.edges.api.organisations.world import AUTH, Organisation, add_organisation
from tests.edges.edge import Edge, running, services
from tocsin.store.pool import Pool


class World(NamedTuple):
    """A server with two organisations."""

    edge: Edge
    acme: Organisation
    globex: Organisation


@pytest.fixture
async def world(pool: Pool) -> AsyncIterator[World]:
    async with running(services(pool, auth=AUTH)) as edge:
        acme = await add_organisation(edge, "acme", "ann")
        yield World(edge, acme, await add_organisation(edge, "globex", "bob"))
