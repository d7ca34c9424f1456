"""`tocsin segments`, and `tocsin send` to many people, over HTTP and on the database."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.edges.command_line import Ran, run
from tests.edges.edge import running, services
from tests.rows import add_user
from tocsin.api.auth.roles import Role
from tocsin.store.pool import Pool

Tocsin: TypeAlias = Callable[..., Awaitable[Ran]]
SEND = ("send", "new_customer", "--payload", '{"customer_name": "Ada"}', "--json")


@pytest.fixture(params=["over HTTP", "on the database"])
async def tocsin(request: Any, pool: Pool, database_url: str, tmp_path: Path) -> Any:
    async with running(services(pool)) as edge:
        key = (await edge.key(Role.ADMIN))["Authorization"].removeprefix("Bearer ")
        url = str(edge.http.base_url).rstrip("/")
        account = tmp_path / "account.json"
        account.write_text("{}")
        environment = (
            {"TOCSIN_SERVER": url, "TOCSIN_KEY": key}
            if request.param == "over HTTP"
            else {"TOCSIN_DATABASE_URL": database_url, "TOCSIN_FCM__CREDENTIALS_FILE": str(account)}
        )

        async def command(*arguments: str) -> Ran:
            return await asyncio.to_thread(run, arguments, environment | {"COLUMNS": "200"}, tmp_path)

        yield command


async def test_a_segment_is_uploaded_sent_to_and_deleted(tocsin: Tocsin, pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "vip.ndjson"
    file.write_text("".join(f'{{"user_id": "user{number}"}}\n' for number in range(5_000)))
    empty = await tocsin("segments", "list")

    uploaded = await tocsin("segments", "upload", "vip", str(file))
    listed = await tocsin("segments", "list", "--json")
    sent = await tocsin(*SEND, "--segment", "vip")
    shown = await tocsin("show", sent.json["notification_id"])
    explained = await tocsin("explain", *SEND[1:-1], "--segment", "vip")
    file.write_text('{"user_id": "ada"}\n{"user_id": []}\n')
    refused = await tocsin("segments", "upload", "vip", str(file))
    deleted, absent = await tocsin("segments", "delete", "vip"), await tocsin("segments", "delete", "vip")

    assert empty.out == "There is no segment.\n"
    assert (uploaded.code, uploaded.out) == (0, "Segment vip has 5,000 people.\n")
    assert [(row["name"], row["members"]) for row in listed.json] == [("vip", 5_000)]
    assert "broadcast expanding: 0 people have their deliveries" in shown.said
    assert "a broadcast to 5,000 people" in explained.said
    assert (refused.code, "line 2" in refused.said) == (2, True)
    assert (deleted.out, absent.code) == ("Segment vip is deleted.\n", 1)
    assert await pool.fetchval("select count(*) from broadcasts") == 1


async def test_everyone_is_sent_to_and_wrong_names_are_refused(tocsin: Tocsin, pool: Pool) -> None:
    await add_user(pool, "ada")

    sent = await tocsin(*SEND, "--everyone")
    wrong = await tocsin("segments", "delete", "a/b")

    assert sent.json["status"] == "accepted"
    assert (wrong.code, "is no name of a segment" in wrong.said) == (2, True)
