from collections.abc import AsyncIterator

import pytest

from tests.edges.api.dashboard.oidc.issuer import Issuer, running_issuer
from tests.edges.api.dashboard.oidc.sign_ins import edge_of
from tests.edges.edge import Edge
from tocsin.store.pool import Pool


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with running_issuer() as running:
        yield running


@pytest.fixture
async def edge(pool: Pool, issuer: Issuer) -> AsyncIterator[Edge]:
    async with edge_of(pool, issuer.url) as running:
        yield running
