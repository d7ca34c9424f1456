"""A server and a mailer share no schema, whichever of them was there first."""

import asyncio
from datetime import timedelta

import pytest

from tests.ingress.mail_commands.conftest import Post
from tocsin.cli.schema_use import check_server_schema
from tocsin.domain.errors import SettingsError
from tocsin.domain.ids import uuid7
from tocsin.settings.load import load_settings
from tocsin.store import processes
from tocsin.store.processes import ProcessReport

MAILER_OFFSET = "insert into stream_offsets (name, stream) values ('mailer', 'mail:delivery_commands')"


async def test_the_schema_of_a_server_is_refused(post: Post) -> None:
    server = ProcessReport(id=uuid7(), kind="worker", host="h", pid=1, catalog="c")
    await processes.report(post.pool, server, read_ago=timedelta())
    with pytest.raises(SettingsError, match="a worker; the mailer needs its own: set TOCSIN_SCHEMA=mailer"):
        async with post.running():
            pass
    await processes.forget(post.pool, server.id)
    await post.pool.execute("insert into stream_offsets (name, stream) values ('galaxy', 'intents')")
    with pytest.raises(SettingsError, match="with stream galaxy;"):
        async with post.running():
            pass


async def test_no_process_of_a_server_starts_in_the_schema_of_a_mailer(post: Post) -> None:
    mailer = ProcessReport(id=uuid7(), kind="mailer", host="h", pid=1, catalog="c")
    await processes.report(post.pool, mailer, read_ago=timedelta())
    post.environment["TOCSIN_STREAMS__GALAXY__BATCH"] = "100"

    for ran in await asyncio.gather(*map(post.tocsin, ("serve", "worker", "relay"))):
        assert ran.code == 2, ran.said
        assert (
            "schema (TOCSIN_SCHEMA): tocsin is the schema of a mailer, with a mailer; a server needs"
            in ran.said
        )

    await processes.forget(post.pool, mailer.id)
    await post.pool.execute(MAILER_OFFSET)
    ran = await post.tocsin("worker")
    assert (
        ran.code,
        "with stream mailer; a server needs its own: set another TOCSIN_SCHEMA" in ran.said,
    ) == (2, True)


async def test_a_server_may_read_a_stream_named_mailer(post: Post) -> None:
    await post.pool.execute(MAILER_OFFSET)
    named = load_settings({**post.environment, "TOCSIN_STREAMS__MAILER__STREAM": "intents"})
    await check_server_schema(named, post.environment["TOCSIN_DATABASE_URL"])
    with pytest.raises(SettingsError, match="is the schema of a mailer"):
        await check_server_schema(load_settings(post.environment), post.environment["TOCSIN_DATABASE_URL"])


async def test_a_mailer_without_a_schema_of_its_own_is_told_which_to_set(post: Post) -> None:
    await post.pool.execute("alter schema tocsin rename to another")
    ran = await post.tocsin("mailer")
    assert ran.code != 0
    assert "Schema tocsin is not set up, and is the one of a server: the mailer needs its own." in ran.said
    assert "Set TOCSIN_SCHEMA=mailer for it and for `tocsin migrate`" in ran.said

    post.environment["TOCSIN_SCHEMA"] = "post"
    assert "Schema post is not set up; these migrations are missing:" in (await post.tocsin("mailer")).said
