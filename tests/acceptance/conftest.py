from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.figures import Figure, as_property, figures
from tests.acceptance.installation import Installation, installed


@pytest.fixture
async def installation(database_url: str, tmp_path: Path) -> AsyncIterator[Installation]:
    """Give an installation that this test has for itself."""
    async with installed(database_url, tmp_path) as made:
        yield made


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Give the way to tell a measured figure at the end of the run."""
    return lambda name, value: request.node.user_properties.append(as_property(name, value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if found := list(figures(terminalreporter.getreports("passed"))):
        terminalreporter.section("figures")
        for line in found:
            terminalreporter.line(line)
