from collections.abc import AsyncIterator

import pytest

from tests.providers.smtp.smtp_rig import Security, SmtpRig
from tests.waiting import until
from tocsin.sandbox import Sandbox, SandboxSettings


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
def security() -> Security:
    return "starttls"


@pytest.fixture
async def rig(running: Sandbox, security: Security) -> AsyncIterator[SmtpRig]:
    running.reset()
    made = SmtpRig(running, security)
    yield made
    await made.aclose()
    await until(lambda: len(running.smtp.sessions) == 0)
