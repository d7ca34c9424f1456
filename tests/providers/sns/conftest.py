from collections.abc import AsyncIterator

import pytest

from tests.providers.sns.rig import SnsRig
from tocsin.sandbox import Sandbox


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox) -> AsyncIterator[SnsRig]:
    running.reset()
    made = SnsRig(running)
    yield made
    await made.aclose()
