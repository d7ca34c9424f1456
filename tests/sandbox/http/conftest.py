from collections.abc import AsyncIterator

import pytest

from tocsin.sandbox import Sandbox, SandboxSettings


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    folder = tmp_path_factory.mktemp("sandbox")
    async with Sandbox(SandboxSettings(folder=folder, max_concurrent_streams=20)) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running
