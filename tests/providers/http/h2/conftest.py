from collections.abc import AsyncIterator

import pytest

from tests.providers.http.h2.raw_peer import RawPeer


@pytest.fixture
async def peer() -> AsyncIterator[RawPeer]:
    async with RawPeer() as opened:
        yield opened
