import uuid
from collections.abc import Iterator

import pytest

from tocsin.client import Tocsin
from tocsin.client.testing import RunningTocsin


@pytest.fixture
def client(tocsin_server: RunningTocsin) -> Iterator[Tocsin]:
    with tocsin_server.client() as made:
        yield made


@pytest.fixture
def user_id() -> str:
    """Return the id of a new person."""
    return f"user-{uuid.uuid4().hex}"
