"""Fixtures for the tests of applications that send by Tocsin; nothing is imported until one is used."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tocsin.client.testing import FakeTocsin, RunningTocsin

_CATALOG = "tocsin_catalog"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the project's catalog."""
    parser.addini(_CATALOG, "The catalog that tocsin_server loads; a folder beside the ini-file.", default="")


@pytest.fixture
def tocsin_fake() -> "Iterator[FakeTocsin]":
    """Return a client that reaches no server and records what it is given."""
    from tocsin.client.testing import FakeTocsin  # noqa: PLC0415 - imported only where it is used

    with FakeTocsin() as fake:
        yield fake


@pytest.fixture(scope="session")
def tocsin_server(request: pytest.FixtureRequest) -> "Iterator[RunningTocsin]":
    """Return a real Tocsin with its own database and sandbox providers, one for the whole run."""
    from tocsin.client.testing.server import missing_packages, running  # noqa: PLC0415 - as above

    if missing := missing_packages():
        pytest.fail(
            f"tocsin_server needs the server and the sandbox, and {', '.join(missing)} are not installed: "
            "pip install 'tocsin[sandbox]'",
            pytrace=False,
        )
    named = request.config.getini(_CATALOG)
    catalog = Path(request.config.rootpath, named) if named else None
    with running(catalog) as server:
        yield server
