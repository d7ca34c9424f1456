import pytest

from tests.engine.stage import StubProvider


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider()
