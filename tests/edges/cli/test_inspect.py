"""`tocsin queue`, `scheduled`, `top` and `person`, over HTTP and from the database."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.browser.operating import SOURCES
from tests.edges.command_line import Ran, run
from tests.edges.edge import Edge, running, services
from tests.rows import (
    NOW,
    add_carrier,
    add_delivery,
    add_device,
    add_digest,
    add_held,
    add_notification,
    add_user,
    add_waiting,
)
from tocsin.api.auth.roles import Role
from tocsin.api.services import Services
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.limits import Allowance, LimitsSettings
from tocsin.domain.timing.days import next_local_day
from tocsin.engine.clock import utc_now
from tocsin.engine.health.provider_health import ProviderInUse, Waiting
from tocsin.engine.inspect.queue import read_schedule
from tocsin.store.health.circuit_breakers import Opening, open_circuit
from tocsin.store.health.provider_health import Counted, count_outcomes
from tocsin.store.limits import LimitRequest, reserve
from tocsin.store.people import preferences
from tocsin.store.pool import Pool
from tocsin.store.sources import lags

Tocsin = Callable[..., Awaitable[Ran]]
HOUR = timedelta(hours=1)
MOST_A_DAY = 3


@pytest.fixture(params=["http", "database"])
async def tocsin(request: pytest.FixtureRequest, pool: Pool, database_url: str, tmp_path: Path) -> Any:
    """Return the command line of an installation with FCM, on its database or over HTTP."""
    account = tmp_path / "account.json"
    account.write_text("{}")
    in_use = (ProviderInUse(name="fcm", channel="push"),)
    async with running(_services(pool, in_use)) as edge:
        variables = await _variables(edge, request.param, database_url, account)

        async def command(*arguments: str) -> Ran:
            return await asyncio.to_thread(run, arguments, variables, tmp_path)

        yield command


def _services(pool: Pool, in_use: tuple[ProviderInUse, ...]) -> Services:
    parts = services(pool, providers=in_use)
    rules = msgspec.structs.replace(
        parts.explainer.rules, limits=LimitsSettings(per_person_per_day=MOST_A_DAY)
    )
    return msgspec.structs.replace(parts, explainer=msgspec.structs.replace(parts.explainer, rules=rules))


async def _variables(edge: Edge, kind: str, database_url: str, account: Path) -> dict[str, str]:
    if kind == "database":
        return {
            "TOCSIN_DATABASE_URL": database_url,
            "TOCSIN_FCM__CREDENTIALS_FILE": str(account),
            "TOCSIN_LIMITS__PER_PERSON_PER_DAY": str(MOST_A_DAY),
            "TOCSIN_QUIET_HOURS__DEFAULT_TIMEZONE": "UTC",
        }
    key = (await edge.key(Role.OPERATOR))["Authorization"].removeprefix("Bearer ")
    return {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key}


async def test_an_operator_sees_what_waits_where_and_why(tocsin: Tocsin, pool: Pool) -> None:
    now = utc_now()
    await add_delivery(pool, due_at=now - 2 * HOUR)
    await add_waiting(pool, 3, due_at=now - HOUR)
    await add_delivery(pool, state="scheduled", due_at=now + HOUR)
    await add_held(pool, "type:new_customer", lane="fanout")
    await add_delivery(pool, state="sent", due_at=now)
    async with pool.acquire() as connection:
        await count_outcomes(
            connection, {Counted("fcm", "sent", ""): 600, Counted("fcm", "retry", "INTERNAL"): 60}
        )
        await open_circuit(
            connection,
            Opening(
                name="fcm",
                provider="fcm",
                code="UNAVAILABLE",
                detail="overloaded",
                after=HOUR,
                rest=HOUR,
                longest=HOUR,
            ),
            now,
        )

    shown, text = (await tocsin("queue", "--json")).json, await tocsin("queue")
    frames = await tocsin("top", "--json", "--count", "2", "--interval", "0.2")
    picture = await tocsin("top", "--count", "1")

    fcm, fanout = shown["lanes"]
    assert (fcm["lane"], fanout["lane"]) == ("fcm", "fanout")
    assert (fcm["due"], fcm["scheduled"]["count"], fcm["held"]["count"]) == (
        {"count": 4, "or_more": False},
        1,
        0,
    )
    assert fanout["held"]["count"] == 1
    assert 7_200 <= fcm["oldest_age_seconds"] < 7_260
    assert 0 < fcm["sent_per_second"] <= 10
    assert fcm["blocked_by"] == "circuit breaker of fcm is open: UNAVAILABLE"
    assert "2:00:" in text.out
    first, second = map(msgspec.json.decode, frames.out.splitlines())
    assert [lane["lane"] for lane in first["queue"]["lanes"]] == ["fcm", "fanout"]
    assert second["queue"]["now"] > first["queue"]["now"]
    assert second["providers"][0]["outcomes"][0]["count"] == 600
    assert "sent a second, of" in picture.out
    assert "INTERNAL" in picture.out


async def test_an_operator_sees_what_leaves_when(tocsin: Tocsin, pool: Pool) -> None:
    now = utc_now()
    later = now.replace(minute=30, second=0, microsecond=0) + 2 * HOUR
    other = await add_notification(pool, type="order_shipped")
    await add_waiting(pool, 3, state="scheduled", due_at=later)
    await add_delivery(pool, "grace", notification_id=other, state="scheduled", due_at=later, lane="smtp")
    await add_carrier(pool, await add_digest(pool, type="weekly"), due_at=later + HOUR)
    await add_delivery(pool, state="scheduled", due_at=later + 500 * HOUR)
    await add_delivery(pool, due_at=now - HOUR)
    await add_held(pool, "order")
    await add_user(pool, "ada", timezone="Asia/Tokyo")

    shown, text = (await tocsin("scheduled", "--json")).json, await tocsin("scheduled", "--hours", "2")

    assert [(hour["count"]["count"], hour["types"]) for hour in shown["hours"]] == [
        (4, [{"type": "new_customer", "count": 3}, {"type": "order_shipped", "count": 1}]),
        (1, [{"type": "weekly", "count": 1}]),
    ]
    in_tokyo, elsewhere = shown["hours"][0]["zones"]
    assert [(each["zone"], each["count"]) for each in (in_tokyo, elsewhere)] == [
        ("Asia/Tokyo", 3),
        ("UTC", 1),
    ]
    local = later.astimezone(ZoneInfo("Asia/Tokyo"))
    assert in_tokyo["local_time"].startswith(f"{local:%Y-%m-%dT%H}:00:00")
    hours = await tocsin("scheduled", "--hours", "4")
    assert f"3  {local:%a %H}:00 in Asia/Tokyo\n" in hours.out
    assert shown["hours"][0]["begins"] == f"{later - timedelta(minutes=30):%Y-%m-%dT%H:%M:%SZ}"
    assert shown["later"] == {"count": 1, "or_more": False}
    assert text.out == "Nothing is due in the next 2 hours.\n6 due later; look further ahead by --hours.\n"


async def test_an_operator_sees_how_far_behind_sources_are(tocsin: Tocsin, pool: Pool) -> None:
    assert "Nothing was ever read" in (await tocsin("sources")).said
    async with pool.acquire() as connection:
        await lags.save(connection, SOURCES)

    text, as_json = await tocsin("sources"), (await tocsin("sources", "--json")).json

    lines = {line.split()[0]: line for line in text.out.splitlines() if line}
    assert lines["outbox:shop"].split()[1:3] == ["reading", "1,240"]
    assert "0:01:3" in lines["outbox:shop"]
    assert "12 tries in a row failed: AccessDenied" in text.out
    assert [(each["kind"], each["state"]) for each in as_json] == [
        ("outbox", "reading"),
        ("queue", "failing"),
        ("stream", "reading"),
    ]


async def test_the_types_of_a_large_hour_are_estimated_from_some_of_it(pool: Pool) -> None:
    now = utc_now()
    due_at = now.replace(minute=30, second=0, microsecond=0) + HOUR
    await add_waiting(pool, 3_000, state="scheduled", due_at=due_at)
    other = await add_waiting(pool, 3_000, state="scheduled", due_at=due_at)
    await pool.execute("update notifications set type = 'campaign' where id = $1", other)

    async with pool.acquire() as connection:
        (hour,) = (await read_schedule(connection, 2, now)).hours

    assert (hour.count, hour.estimated) == (Waiting(6_000, or_more=False), True)
    assert sum(each.count for each in hour.types) == hour.count.count
    # One of six was drawn: further off than five standard deviations is no chance.
    assert {each.type: abs(each.count - 3_000) < 475 for each in hour.types} == {
        "campaign": True,
        "new_customer": True,
    }


async def test_the_silence_towards_a_person_is_explained(tocsin: Tocsin, pool: Pool) -> None:
    now = utc_now()
    known = {"email": "ada@example.com", "timezone": "Asia/Tokyo", "allowed_window": "08:00-09:00"}
    await add_user(pool, "ada", **known, attributes='{"plan": "pro\x9b", "seats": 5}')
    await add_device(pool)
    await add_device(pool, retired_at=NOW, retired_reason="gone: UNREGISTERED")
    made = await add_notification(pool)
    await add_delivery(pool, notification_id=made, state="skipped", reason="daily_limit")
    await add_delivery(pool, "bob", notification_id=made, state="sent")
    await add_delivery(pool, state="dead", last_error_code="INTERNAL")
    async with pool.acquire() as connection:
        await preferences.change(connection, "ada", {"marketing": {"push": False}}, now)
        day = Allowance(
            key="person:ada",
            limit=MOST_A_DAY,
            ends_at=next_local_day(now, ZoneInfo("Asia/Tokyo")),
            reason=Reason.DAILY_LIMIT,
            beyond="skip",
            detail="3 a day for a person",
        )
        await reserve(connection, [LimitRequest(made, (day,)), LimitRequest(made, (day,))])

    person, text = (await tocsin("person", "ada", "--json")).json, await tocsin("person", "ada")
    unknown, impossible = await tocsin("person", "nobody"), await tocsin("person", "a\nb")

    assert (person["directory"]["email"], person["zone"]["name"]) == ("ada@example.com", "Asia/Tokyo")
    assert person["zone"]["local_time"].endswith("+09:00")
    assert (person["zone"]["allowed_window"], person["zone"]["source"]) == ("08:00-09:00", "person")
    assert [device["retired_reason"] for device in person["devices"]] == [None, "gone: UNREGISTERED"]
    assert person["preferences"] == {"marketing": {"push": False}}
    assert [(each["limit"], each["used"], each["most"]) for each in person["limits"]] == [
        ("3 a day for a person", 2, MOST_A_DAY)
    ]
    assert {(each["state"], each["cause"], each["count"]) for each in person["outcomes"]} == {
        ("skipped", "daily_limit", 1),
        ("dead", "INTERNAL", 1),
    }
    shown = [(each["delivery_count"], len(each["deliveries"])) for each in person["notifications"]]
    assert shown == [(1, 1), (2, 1)]
    assert person["directory"]["attributes"] == {"plan": "pro\x9b", "seats": 5}
    assert 'attributes plan="pro\ufffd", seats=5' in text.out
    assert "token-" not in text.out
    assert "2 of 3 a day for a person, until " in text.out
    assert "1 skipped daily_limit: the person or the device has had enough for their day" in text.out
    assert "does not want: marketing by push" in text.out
    assert (unknown.code, "Nothing is known of user nobody." in unknown.err) == (1, True)
    assert impossible.code == 2


@pytest.mark.parametrize("role", [Role.VIEWER, Role.PRODUCER])
async def test_only_who_may_read_the_directory_and_every_notification_sees_a_person(
    edge: Edge, role: Role
) -> None:
    answer = await edge.http.get("/v1/admin/people/ada", headers=await edge.key(role))

    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
