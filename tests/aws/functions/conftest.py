"""A function as Lambda runs it, against moto's server, with a real API of Tocsin behind it."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.aws.functions.faulty_aws import FaultyAws, faulty_front
from tests.aws_servers import REGION, AwsServer
from tests.catalogs import shipped
from tests.edges.edge import listening, services
from tocsin.api.app import create_app
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.aws import delivery_mobile
from tocsin.engine.clock import utc_now
from tocsin.store.pool import Pool


class Function:
    """A handler with its environment."""

    def __init__(self, module: Any) -> None:
        self._module = module

    async def __call__(self, *records: Any, context: Any = None) -> dict[str, Any]:
        """Invoke it with records, on a thread: the API that it calls runs in this loop."""
        answer: dict[str, Any] = await asyncio.to_thread(
            self._module.handler, {"Records": list(records)}, context
        )
        return answer

    def restart(self) -> None:
        """Forget what the process remembers, as a cold start does."""
        if self._module.build.cache_info().currsize:
            self._module.build().exits.close()
        self._module.build.cache_clear()


@pytest.fixture(scope="session")
def faulty_aws(aws_server: AwsServer) -> Iterator[FaultyAws]:
    with faulty_front(aws_server.url) as front:
        yield front


@pytest.fixture
async def tocsin_api(pool: Pool) -> AsyncIterator[str]:
    """Give the address of Tocsin's API."""
    parts = services(pool)
    async with listening(create_app(parts, shipped()), parts.http) as url:
        yield url


@pytest.fixture
def clean_environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.startswith("DELIVERY_"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
async def mobile(
    pool: Pool, tocsin_api: str, faulty_aws: FaultyAws, clean_environ: pytest.MonkeyPatch
) -> AsyncIterator[Function]:
    """Give the function for phones."""
    key = await create_key(pool, "delivery", Role.DELIVERY, utc_now())
    clean_environ.setenv("DELIVERY_API_URL", tocsin_api)
    clean_environ.setenv("DELIVERY_API_KEY", key.secret)
    clean_environ.setenv("AWS_ENDPOINT_URL", faulty_aws.url)
    clean_environ.setenv("AWS_DEFAULT_REGION", REGION)
    function = Function(delivery_mobile)
    function.restart()
    yield function
    function.restart()
