from datetime import timedelta

import pytest
from redis.asyncio import Redis

from tests.engine.hand_off.galaxy import GALAXY, Galaxy
from tests.engine.stage import MovableClock, Stage
from tests.redis_servers import RedisServer
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog
from tocsin.domain.catalog import Policies
from tocsin.domain.delivery.backoff import Exponential
from tocsin.store.pool import Pool


@pytest.fixture(scope="session")
def galaxy_catalog() -> Catalog:
    backoff = Exponential(timedelta(seconds=1), timedelta(minutes=5), 2, 0)
    policies = Policies(attempts={"push": 3, "email": 7}, backoff=backoff)
    return load_catalog(GALAXY / "catalog", policies)


@pytest.fixture
def galaxy(
    database_url: str,
    pool: Pool,
    worker_pool: Pool,
    galaxy_catalog: Catalog,
    clock: MovableClock,
    redis: Redis,
    redis_server: RedisServer,
) -> Galaxy:
    stage = Stage(database_url, pool, worker_pool, galaxy_catalog, clock)
    return Galaxy(stage, redis, redis_server)
