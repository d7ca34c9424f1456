"""`tocsin send` and `explain` to the users who have some attributes."""

import asyncio
from pathlib import Path

from tests.edges.command_line import Ran, run
from tests.rows import add_user
from tocsin.store.pool import Pool

PEOPLE = {
    "ada": '{"plan": "pro", "seats": 5, "interests": ["news"]}',
    "bob": '{"plan": "pro", "seats": 1, "zip": "01234"}',
}


async def test_the_command_line_asks_for_attributes(pool: Pool, database_url: str, tmp_path: Path) -> None:
    for user_id, attributes in PEOPLE.items():
        await add_user(pool, user_id, attributes=attributes)

    async def tocsin(command: str, *asked: str) -> Ran:
        options = [part for each in asked for part in ("--attribute", each)]
        arguments = [command, "new_customer", *options, "--payload", '{"customer_name": "Grace"}', "--json"]
        return await asyncio.to_thread(run, arguments, {"TOCSIN_DATABASE_URL": database_url}, tmp_path)

    async def found(*asked: str) -> list[str]:
        explained = await tocsin("explain", *asked)
        return [route["recipient"] for route in explained.json["routes"]]

    sent = await tocsin("send", "plan=pro", "seats=5")
    rows = await pool.fetch(
        "select user_id from deliveries where notification_id = $1", sent.json["notification_id"]
    )
    assert [row["user_id"] for row in rows] == ["ada"]
    assert await found("plan=pro") == ["user:ada", "user:bob"]
    assert await found('interests=["news"]') == ["user:ada"]
    assert await found('zip="01234"') == ["user:bob"]

    nobody, wrong = await tocsin("send", "plan=prof"), await tocsin("send", "plan", "a=1", "a=2")
    assert (nobody.code, wrong.code) == (2, 2)
    assert "audience.attributes: finds nobody" in nobody.said
    assert "'plan' is not NAME=VALUE" in wrong.said
    assert "'a' is given twice" in wrong.said
