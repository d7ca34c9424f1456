import asyncio

import pytest
from redis.asyncio import ConnectionPool

from tests.catalogs import shipped
from tests.databases import SCHEMA
from tests.ingress.redis_streams.conftest import Galaxy
from tocsin.compose.relays import open_relays
from tocsin.domain.errors import SettingsError
from tocsin.settings.load import load_settings


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


HAND_OFF = {
    "GATEWAY_STREAM__ENABLED": "true",
    "GATEWAY_STREAM__TABLES": "tables",
    "MAIL_STREAM__ENABLED": "true",
}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({**HAND_OFF, "GATEWAY_STREAM__STREAM": "x", "MAIL_STREAM__STREAM": "x"}, "mail_stream.stream"),
        ({**HAND_OFF, "MAIL_STREAM__STREAM": "x", "STREAMS__GALAXY__STREAM": "x"}, "streams.galaxy.stream"),
        ({**HAND_OFF, "GATEWAY_STREAM__STREAM": "x", "MAILER__STREAM": "x"}, "mailer.stream"),
        ({**HAND_OFF, "MAIL_STREAM__STREAM": "x", "GATEWAY__STREAM": "x"}, "gateway.stream"),
        ({"MAILER__STREAM": "x", "GATEWAY__STREAM": "x"}, "mailer.stream"),
        (
            {"MAILER__STREAM": "x", "STREAMS__A__STREAM": "x", "STREAMS__A__URL": "redis://:pw@redis:6379/0"},
            "streams.a.stream",
        ),
        (
            {
                "STREAMS__A__STREAM": "x",
                "STREAMS__B__STREAM": "x",
                "STREAMS__B__URL": "redis://:pw@redis/?db=0",
            },
            "streams.b.stream",
        ),
    ],
)
def test_two_kinds_of_entries_never_share_a_stream(given: dict[str, str], field: str) -> None:
    assert (field, "contradiction") in faults(REDIS__URL="redis://redis", **given)


@pytest.mark.parametrize("apart", ["redis://redis/1", "redis://redis:6380", "redis://other", "unix:///redis"])
def test_streams_of_the_same_name_on_other_servers_or_databases_are_others(apart: str) -> None:
    given = {
        "REDIS__URL": "redis://redis",
        "STREAMS__A__STREAM": "x",
        "MAILER__STREAM": "x",
        "MAILER__URL": apart,
    }
    load_settings({f"TOCSIN_{name}": value for name, value in given.items()})


def test_the_reader_and_the_writer_of_a_stream_have_the_same() -> None:
    given = {**HAND_OFF, "REDIS__URL": "redis://redis", "STREAMS__GALAXY__BATCH": "10"}
    load_settings({f"TOCSIN_{name}": value for name, value in given.items()})


def test_no_address_is_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"TOCSIN_REDIS__URL": "redis://:sec/ret@redis.example"})
    assert [fault.code for fault in caught.value.faults] == ["invalid"]
    assert "sec" not in str(caught.value).replace("percent", "")
    settings = load_settings(
        {"TOCSIN_REDIS__URL": "redis://:secret@a", "TOCSIN_STREAMS__GALAXY__URL": "redis://:secret@b"}
    )
    assert "secret" not in repr((settings, settings.redis, settings.streams))


@pytest.mark.parametrize(
    "url",
    [
        "redis://redis?protocol=3",
        "redis://redis?decode_responses=1",
        "redis://redis?socket_timeout=x",
        "redis://redis?ssl_ca_certs=/ca.pem",
        "rediss://redis?ssl_cert_reqs=maybe",
        "redis://redis?db=x",
        "unix:///run/redis.sock?db=x",
        # A password that is not percent-encoded.
        "redis://user:12/sec@redis/0",
        "redis://:12?sec@redis/0",
        "redis://:12#sec@redis/0",
    ],
)
def test_an_address_that_the_client_would_take_for_another_is_refused(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"TOCSIN_REDIS__URL": url})
    (fault,) = caught.value.faults
    assert fault.code == "invalid"
    assert url not in fault.message
    assert "sec" not in fault.message.replace("percent", "")


@pytest.mark.parametrize(
    "url",
    [
        "redis://redis",
        "redis://redis/",
        "redis://user:p%2Fw%3F%23%40@[::1]:6379/3",
        "redis://redis?db=3&client_name=tocsin",
        "rediss://redis:6380/0?ssl_ca_certs=%2Fca.pem&ssl_cert_reqs=required&ssl_check_hostname=false",
        "unix://user:p%40@/run/redis.sock?db=1",
    ],
)
def test_an_address_that_the_client_can_use_is_taken(url: str) -> None:
    assert load_settings({"TOCSIN_REDIS__URL": url}).redis.url == url
    # It makes its connection with every option of the address, and connects to nothing yet.
    ConnectionPool.from_url(url).make_connection()  # type: ignore[no-untyped-call]


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
