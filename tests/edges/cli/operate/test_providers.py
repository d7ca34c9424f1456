"""`tocsin providers` and `tocsin alarms` as an operator runs them."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tests.edges.command_line import Ran, run
from tests.rows import NOW, add_delivery, add_waiting
from tocsin.domain.ids import uuid7
from tocsin.engine.clock import utc_now
from tocsin.store.health.circuit_breakers import Opening, open_circuit, take_probe
from tocsin.store.health.provider_health import Alarm, Counted, count_outcomes, raise_alarms
from tocsin.store.pool import Pool
from tocsin.store.toggles import history, off

WIDTH = 80


class Operator:
    """Somebody at a terminal, with FCM and Expo set up."""

    def __init__(self, url: str, folder: Path) -> None:
        credentials = folder / "account.json"
        credentials.write_text("{}")
        self._folder = folder
        self._settings = {
            "TOCSIN_DATABASE_URL": url,
            "TOCSIN_FCM__CREDENTIALS_FILE": str(credentials),
            "TOCSIN_EXPO__ENABLED": "true",
            "LOGNAME": "ada",
            "COLUMNS": str(WIDTH),
        }

    async def runs(self, *arguments: str, **settings: str) -> Ran:
        return await asyncio.to_thread(run, arguments, self._settings | settings, self._folder)


@pytest.fixture
def operator(database_url: str, tmp_path: Path) -> Operator:
    return Operator(database_url, tmp_path)


async def bring_into_trouble(pool: Pool) -> None:
    """Let FCM be down, with an alarm and much that waits."""
    async with pool.acquire() as connection:
        opening = Opening(
            name="fcm",
            provider="fcm",
            code="THIRD_PARTY_AUTH_ERROR",
            detail="[bold]no key[/bold] for APNs",
            after=timedelta(hours=1),
            rest=timedelta(seconds=5),
            longest=timedelta(minutes=1),
        )
        await open_circuit(connection, opening, NOW)
        await raise_alarms(connection, {Alarm("fcm", opening.code, opening.detail): 7}, NOW)
        counts = {Counted("fcm", "sent", ""): 30, Counted("fcm", "defer", opening.code): 90}
        await count_outcomes(connection, counts)
    await add_waiting(pool, 10_001)
    await add_delivery(pool, lane="expo")


async def test_the_table_fits_eighty_columns(operator: Operator, pool: Pool) -> None:
    await bring_into_trouble(pool)

    ran = await operator.runs("providers")

    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= WIDTH
    heading, *lines = [line.split() for line in ran.out.splitlines()]
    assert heading == ["provider", "channel", "circuit", "sent/s", "errors", "waiting", "alarm"]
    fcm, expo = (next(line for line in lines if line[0] == name) for name in ("fcm", "expo"))
    assert fcm[:3] + fcm[4:5] == ["fcm", "push", "open", "75%"]
    assert "10000+" in fcm
    assert "".join(word for line in lines[:2] for word in line).count("THIRD_PARTY") == 2
    assert expo == ["expo", "push", "closed", "0", "of", "600", "-", "1", "-"]


async def test_one_provider_is_shown_with_everything_known(operator: Operator, pool: Pool) -> None:
    await bring_into_trouble(pool)
    await operator.runs("providers", "pause", "fcm", "--reason", "mending the key", "--by", "grace")

    ran, as_json = await asyncio.gather(
        operator.runs("providers", "show", "fcm"), operator.runs("providers", "show", "fcm", "--json")
    )

    for words in (
        "fcm (push): paused",
        "by grace: mending the key",
        "10000+ deliveries wait for it",
        "75.0% 90 defer THIRD_PARTY_AUTH_ERROR",
        "25.0% 30 sent",
        "fcm is open since 2026-03-01 12:00:00Z",
        "tried next at 2026-03-01 13:00:00Z",
        "THIRD_PARTY_AUTH_ERROR: [bold]no key[/bold] for APNs",
        "THIRD_PARTY_AUTH_ERROR, 7 times",
    ):
        assert words in ran.said
    assert (as_json.json["state"], as_json.json["waiting"]) == ("paused", {"count": 10_000, "or_more": True})
    assert as_json.json["paused"]["by"] == "grace"


async def test_a_provider_is_paused_and_resumed_by_its_toggle(operator: Operator, pool: Pool) -> None:
    paused = await operator.runs("providers", "pause", "fcm", "--reason", "outage")
    assert (paused.code, paused.err) == (0, "")
    assert paused.said == "provider:fcm is off. What is for fcm waits until: tocsin providers resume fcm"
    assert await off(pool) == {"provider:fcm"}
    listed = await operator.runs("providers", "--json")
    assert [provider["state"] for provider in listed.json] == ["paused", "closed"]

    resumed = await operator.runs("providers", "resume", "fcm", "--json")

    assert (resumed.json["name"], resumed.json["enabled"]) == ("provider:fcm", True)
    assert await off(pool) == frozenset()
    changes = await history(pool, "provider:fcm")
    assert [(change.enabled, change.reason, change.changed_by) for change in changes] == [
        (True, None, "ada"),
        (False, "outage", "ada"),
    ]


async def test_a_provider_that_was_mended_is_tried_at_once(operator: Operator, pool: Pool) -> None:
    opening = Opening(
        name="fcm",
        provider="fcm",
        code="UNAUTHENTICATED",
        detail="the key was revoked",
        after=timedelta(hours=1),
        rest=timedelta(seconds=5),
        longest=timedelta(minutes=1),
    )
    async with pool.acquire() as connection:
        await open_circuit(connection, opening, utc_now())

    tried = await operator.runs("providers", "try", "fcm")
    as_json = await operator.runs("providers", "try", "fcm", "--json")
    other = await operator.runs("providers", "try", "expo")

    assert (tried.code, tried.err, tried.said) == (0, "", "Tried with the next message: fcm")
    assert as_json.json == {"provider": "fcm", "circuits": ["fcm"]}
    assert (other.code, other.said) == (0, "No circuit of expo is open.")
    async with pool.acquire() as connection:
        assert await take_probe(connection, "fcm", utc_now(), utc_now() + timedelta(minutes=1))


async def test_what_is_not_in_use_is_told_with_what_is(operator: Operator, pool: Pool) -> None:
    for arguments in (
        ["show", "apns"],
        ["pause", "apns", "--reason", "x"],
        ["resume", "apns"],
        ["try", "apns"],
    ):
        ran = await operator.runs("providers", *arguments)
        assert ran.code == 1
        assert ran.said == "error: There is no provider 'apns' in use; in use are fcm, expo."
    reasonless, blank = (
        await operator.runs("providers", "pause", "fcm"),
        await operator.runs("providers", "pause", "fcm", "--reason", " "),
    )
    assert (reasonless.code, blank.code) == (2, 2)
    assert "--reason" in reasonless.err
    assert "--reason must be 1 to 500 characters" in blank.err
    assert await off(pool) == frozenset()


async def test_without_a_provider_it_is_said_how_to_have_one(database_url: str, tmp_path: Path) -> None:
    settings = {"TOCSIN_DATABASE_URL": database_url}

    listed = await asyncio.to_thread(run, ["providers"], settings, tmp_path)
    shown = await asyncio.to_thread(run, ["providers", "show", "fcm"], settings, tmp_path)

    assert listed.said == "No provider is set up. Name the credentials of one in the settings."
    assert shown.said == "error: There is no provider 'fcm' in use; none is set up."


async def test_alarms_are_listed_and_cleared(operator: Operator, pool: Pool) -> None:
    assert (await operator.runs("alarms")).said == "No alarm stands."
    assert (await operator.runs("alarms", "--all")).said == "There never was an alarm."
    async with pool.acquire() as connection:
        for code in ("UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"):
            await raise_alarms(connection, {Alarm("fcm", code, "revoked"): 3}, NOW)

    listed, as_json = await operator.runs("alarms"), await operator.runs("alarms", "--json")
    newest = as_json.json[0]
    assert max(map(len, listed.out.splitlines())) <= WIDTH
    first = f"{newest['alarm_id']} fcm THIRD_PARTY_AUTH_ERROR, 3 times stands; since 2026-03-01 12:00:00Z"
    assert listed.said.startswith(f"{first}, last 2026-03-01 12:00:00Z revoked ")

    cleared = await operator.runs("alarms", "clear", newest["alarm_id"])

    assert (cleared.code, cleared.said) == (0, "Cleared THIRD_PARTY_AUTH_ERROR of fcm.")
    assert [alarm["code"] for alarm in (await operator.runs("alarms", "--json")).json] == ["UNAUTHENTICATED"]
    every = (await operator.runs("alarms", "--all", "--json")).json
    assert [alarm["cleared_by"] for alarm in every] == ["ada", None]
    assert "Z by ada; since 2026-03-01 " in (await operator.runs("alarms", "--all")).said


async def test_what_does_not_stand_cannot_be_cleared(operator: Operator) -> None:
    unknown = uuid7()

    lost, no_id, nobody = (
        await operator.runs("alarms", "clear", str(unknown)),
        await operator.runs("alarms", "clear", "the-last-one"),
        await operator.runs("alarms", "clear", str(unknown), "--by", " "),
    )

    assert (lost.code, no_id.code, nobody.code) == (1, 2, 2)
    assert f"No alarm {unknown} stands" in lost.said
    assert "--by must be 1 to 500 characters" in nobody.said
