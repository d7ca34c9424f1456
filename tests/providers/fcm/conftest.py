from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.providers.fcm.rig import FcmRig
from tocsin.sandbox import Sandbox, SandboxSettings


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox, tmp_path: Path) -> AsyncIterator[FcmRig]:
    running.reset()
    made = FcmRig(running, tmp_path)
    yield made
    await made.aclose()
