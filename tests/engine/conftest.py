import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from databases import SCHEMA
from engine.stage import MovableClock, Stage
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.store.pool import Pool, PoolSettings, open_pool

ALERT = """
alert:
  version: 1
  category: alerts
  channels: [push, email]
  default_locale: en
  payload:
    type: object
    properties:
      text: {type: string, examples: [Fire]}
  policies:
    attempts: {push: 3}
    backoff: ladder(10s)
"""
TEXTS = {
    "push.title": "Alert",
    "push.body": "Alert: {{ text | default('unknown') }}",
    "email.subject": "Alert",
    "email.text": "-",
}


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Give the shipped types and one more, which takes any payload and goes by two channels."""
    folder: Path = tmp_path_factory.mktemp("catalog") / "catalog"
    shutil.copytree(shipped_catalog(), folder)
    (folder / "types" / "alert.yaml").write_text(ALERT)
    texts = folder / "templates" / "alert" / "en"
    texts.mkdir(parents=True)
    for part, text in TEXTS.items():
        (texts / f"{part}.j2").write_text(text)
    return load_catalog(folder)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def worker_pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as opened:
        yield opened


@pytest.fixture
def stage(database_url: str, pool: Pool, worker_pool: Pool, catalog: Catalog, clock: MovableClock) -> Stage:
    return Stage(database_url, pool, worker_pool, catalog, clock)
