import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
import structlog
from hypothesis import HealthCheck, settings
from redis.asyncio import Redis

from tests.databases import SCHEMA, Clones, migrated_template, running_server
from tests.redis_servers import RedisServer, running_redis
from tocsin.store.pool import Pool, PoolSettings, open_pool

# How long an example takes says more about the machine than about the code.
settings.register_profile("tocsin", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tocsin")

# By default a traceback is drawn with the values of its variables, half a second in the event loop.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
    ]
)


def pytest_collection_finish() -> None:
    # What was imported and collected stays for the run; a full collection would look through it each time.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture(scope="session")
async def template_database(server_url: str) -> AsyncIterator[str]:
    async with migrated_template(server_url) as name:
        yield name


@pytest.fixture(scope="session")
async def clones(server_url: str, template_database: str) -> AsyncIterator[Clones]:
    async with aclosing(Clones(server_url, template_database, [f"{SCHEMA}.schema_migrations"])) as clones:
        yield clones


@pytest.fixture
async def database_url(clones: Clones) -> AsyncIterator[str]:
    """Give the address of a migrated database that this test has for itself."""
    async with clones.lent() as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(database_url, SCHEMA, PoolSettings()) as opened:
        yield opened


@pytest.fixture(scope="session")
async def redis_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RedisServer]:
    async with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    """Give an empty Redis."""
    async with Redis.from_url(redis_server.url) as client:
        await client.flushall()
        yield client
