from collections.abc import AsyncIterator

import pytest

from tests.gateway.clients import ClientEvents, RunningGateway
from tests.gateway.signalr.clients import PATH


@pytest.fixture
async def hub(events: ClientEvents) -> AsyncIterator[RunningGateway]:
    """Run a gateway that serves SignalR."""
    async with events.gateway(signalr_path=PATH) as running:
        yield running
