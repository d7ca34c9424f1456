import asyncio

import pytest

from tests.catalogs import shipped
from tests.databases import SCHEMA
from tests.ingress.redis_streams.conftest import Galaxy
from tocsin.compose import open_relays
from tocsin.domain.errors import SettingsError
from tocsin.settings import load_settings


def faults(**environ: str) -> list[tuple[str, str]]:
    with pytest.raises(SettingsError) as caught:
        load_settings({f"TOCSIN_{name}": value for name, value in environ.items()})
    return [(fault.field.partition(" ")[0], fault.code) for fault in caught.value.faults]


def test_faults_of_streams_are_listed() -> None:
    assert faults(STREAMS__GALAXY__BATCH="10") == [("streams.galaxy.url", "missing")]
    assert faults(REDIS__URL="http://redis") == [("redis.url", "invalid")]
    assert faults(
        REDIS__URL="redis://redis",
        STREAMS__A__BLOCK_SECONDS="5",
        STREAMS__A__LEASE_SECONDS="6",
        STREAMS__B__BATCH="10",
    ) == [
        ("streams.a.lease_seconds", "contradiction"),
        ("streams.b.stream", "contradiction"),
    ]


def test_no_address_is_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"TOCSIN_REDIS__URL": "redis://:sec/ret@redis.example"})
    assert [fault.code for fault in caught.value.faults] == ["invalid"]
    assert "sec" not in str(caught.value).replace("percent", "")
    settings = load_settings(
        {"TOCSIN_REDIS__URL": "redis://:secret@a", "TOCSIN_STREAMS__GALAXY__URL": "redis://:secret@b"}
    )
    assert "secret" not in repr((settings, settings.redis, settings.streams))


async def test_the_relay_reads_what_the_settings_name(galaxy: Galaxy, database_url: str) -> None:
    settings = load_settings(
        {
            "TOCSIN_DATABASE_URL": database_url,
            "TOCSIN_SCHEMA": SCHEMA,
            "TOCSIN_REDIS__URL": galaxy.server.url,
            "TOCSIN_STREAMS__GALAXY__BLOCK_SECONDS": "0.1",
        }
    )
    last = await galaxy.append(key="1")
    async with open_relays(settings, database_url, shipped()) as sources:
        (source,) = sources
        stop = asyncio.Event()
        running = asyncio.create_task(source.run(stop))
        await galaxy.reaches(last)
        stop.set()
        await running

    assert await galaxy.pool.fetchval("select lease from stream_offsets") is None
