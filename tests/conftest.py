import gc
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from redis.asyncio import Redis

from tests.aws_servers import AwsServer, running_aws
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


@pytest.fixture(scope="session")
def aws_server() -> Iterator[AwsServer]:
    """Give AWS as moto emulates it, one for all tests: each makes topics and queues with names of its own."""
    with running_aws() as server:
        yield server


@pytest.fixture
def expired_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have whatever renews credentials of AWS return expired ones, as it seems to a clock that is wrong."""
    given = {
        "Version": 1,
        "AccessKeyId": "x",
        "SecretAccessKey": "x",
        "SessionToken": "x",
        "Expiration": "2020-01-01T00:00:00Z",
    }
    printed, config = tmp_path / "credentials.json", tmp_path / "config"
    printed.write_text(json.dumps(given))
    program = f"import pathlib; print(pathlib.Path({str(printed)!r}).read_text())"
    config.write_text(f'[default]\ncredential_process = {sys.executable} -c "{program}"\n')
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
