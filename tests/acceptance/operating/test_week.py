"""An operator's week: whatever happens is seen and mended by `tocsin` commands alone."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg

from tests.acceptance.installation import Producer
from tests.acceptance.operating.backups import run_documented
from tests.acceptance.operating.week import Week, operated
from tests.acceptance.postgres import mortal_folder
from tests.edges.edge import person
from tests.waiting import found, until
from tocsin.engine.clock import utc_now
from tocsin.sandbox import Chance, Latency, Outage, Refuse
from tocsin.store.embedded import EmbeddedPostgres

PEOPLE = [f"user-{number}" for number in range(20)]
OFFERS = 160
FAILED = 200
RATE = 100
A_BATCH = RATE // 4


async def test_an_operators_week(database_url: str, tmp_path: Path) -> None:
    async with operated(database_url, tmp_path) as week:
        for user_id in (*PEOPLE, "lena"):
            await week.producer.register(user_id, f"phone-of-{user_id}-{uuid4().hex}")
        offers = await stop_a_bad_campaign(week)
        await explain_a_silence(week)
        await see_an_outage(week)
        await replay_dead_letters(week, database_url)
        old = await rotate_a_key(week)
        await erase_a_person(week, database_url)
        await is_refused(old)
        await restore_a_backup(week, database_url, tmp_path)
        assert week.arrived("Spring") == offers


async def stop_a_bad_campaign(week: Week) -> int:
    """Stop a campaign while it is being sent; return how many offers had gone."""
    week.sandbox.faults.latency(Latency(1.0))
    for _ in range(OFFERS // len(PEOPLE)):
        key = f"spring-{uuid4()}"
        await week.producer.notify(*PEOPLE, type="spring_offer", payload={}, idempotency_key=key)
    await until(lambda: week.arrived("Spring") > 0)

    await week.tocsin("toggle", "off", "type:spring_offer", "--reason", "wrong price")
    week.sandbox.faults.latency(None)

    async def held() -> int:
        [lane] = [lane for lane in (await week.json("queue"))["lanes"] if lane["lane"] == "fcm"]
        return 0 if lane["due"]["count"] else int(lane["held"]["count"])

    waiting = await found(held, within=30)
    campaign = ("--type", "spring_offer", "--key-prefix", "spring-", "--from", "2h")
    dry = await week.tocsin("cancel", *campaign, "--dry-run")
    assert dry == f"{waiting} deliveries would be cancelled.\n"
    assert len(await week.listed(*campaign, "--state", "cancelled")) == 0
    done = await week.json("cancel", *campaign)
    assert done == {"matched": waiting, "cancelled": waiting, "in_flight": 0, "dry_run": False}
    await week.tocsin("toggle", "on", "type:spring_offer")

    sent = OFFERS - waiting
    assert len(await week.listed(*campaign, "--state", "sent")) == week.arrived("Spring") == sent > 0
    stopped = await week.listed(*campaign, "--state", "cancelled")
    assert {each["reason"] for each in stopped} == {"cancelled_by_operator"}
    assert len(stopped) == waiting
    [entry] = await week.json("audit", "--action", "notifications.cancel")
    assert entry["actor"].startswith("ops ")
    assert entry["details"]["cancelled"] == waiting
    return sent


async def explain_a_silence(week: Week) -> None:
    refused = {"customers": {"push": False}}
    answer = await week.producer.http.patch("/v1/preferences", headers=person("lena"), json=refused)
    assert answer.status_code == 200
    missed = await week.producer.notify("lena")
    await week.waits_for(1, "--user", "lena", "--reason", "opted_out")

    meaning = "the person does not want this category by this channel"
    shown = await week.tocsin("person", "lena")
    assert "does not want: customers by push\n" in shown
    assert f"1 skipped opted_out: {meaning}\n" in shown
    assert f"opted_out: {meaning}\n" in await week.tocsin("show", missed)
    intent = ("new_customer", "--user", "lena", "--payload", '{"customer_name": "Ali"}')
    assert "skipped (opted_out)  push:user:lena\n" in await week.tocsin("explain", *intent)


async def see_an_outage(week: Week) -> None:
    """See FCM go down, and refuse the credentials when it is back; go on when both are mended."""
    week.sandbox.faults.outage(Outage())
    await week.producer.notify(*PEOPLE)
    await week.metric_is(1, 1, "tocsin_circuit_open", provider="fcm")
    assert (await week.tocsin("providers", "show", "fcm")).startswith("fcm (push): circuit open\n")
    [lane] = (await week.json("queue"))["lanes"]
    assert lane["blocked_by"] == "circuit breaker of fcm is open: UNAVAILABLE"
    [fcm] = await week.json("providers")
    assert fcm["state"] == "open"
    failed = {"provider": "fcm", "code": "UNAVAILABLE"}
    await week.metric_is(10, len(PEOPLE), "tocsin_attempts_failed_total", **failed)

    week.sandbox.faults.outage(None)
    week.sandbox.faults.chances(Chance(1.0, Refuse("UNAUTHENTICATED")))
    await week.tocsin("providers", "try", "fcm")
    await week.metric_is(1, 1, "tocsin_alarms", code="UNAUTHENTICATED")
    alarm = await week.tocsin("alarms")
    assert "  fcm  UNAUTHENTICATED, " in alarm
    assert "\n  Request had invalid authentication credentials." in alarm

    week.sandbox.faults.chances()
    await week.tocsin("providers", "try", "fcm")
    await week.waits_for(len(PEOPLE) - 1, "--type", "new_customer", "--state", "sent")
    [deferred] = await week.listed("--code", "UNAUTHENTICATED")
    assert deferred["state"] in {"retrying", "scheduled"}
    await week.metric_is(0, 0, "tocsin_circuit_open", provider="fcm")
    await week.metric_is(0, 0, "tocsin_alarms")
    assert await week.tocsin("alarms") == "No alarm stands.\n"


async def replay_dead_letters(week: Week, database_url: str) -> None:
    week.sandbox.faults.chances(Chance(1.0, Refuse("INVALID_ARGUMENT")))
    await week.producer.notify_many(PEOPLE, FAILED // len(PEOPLE))
    cause = ("--code", "INVALID_ARGUMENT", "--provider", "fcm")
    await week.waits_for(FAILED, "--state", "rejected")

    [group] = (await week.json("dead", "list"))["groups"]
    assert (group["state"], group["type"], group["count"]) == ("rejected", "new_customer", FAILED)
    example = await week.tocsin("show", group["example"]["notification_id"])
    assert "refused for good: payload, credentials: INVALID_ARGUMENT" in example
    before = week.sandbox.phones.count

    week.sandbox.faults.chances()
    assert (
        await week.tocsin("dead", "replay", *cause, "--dry-run")
        == f"{FAILED} dead letters would be replayed.\n"
    )
    replay = await week.json("dead", "replay", *cause, "--rate", str(RATE))
    assert (replay["state"], replay["replayed"], replay["left_out"]) == ("finished", FAILED, {})
    await week.waits_for(FAILED + len(PEOPLE) - 1, "--type", "new_customer", "--state", "sent")
    assert week.sandbox.phones.count == before + FAILED
    assert await week.tocsin("dead", "list") == "There are no such dead letters.\n"
    [row] = await week.json("dead", "replays")
    began, ended = (datetime.fromisoformat(row[name]) for name in ("created_at", "finished_at"))
    assert (ended - began).total_seconds() >= (FAILED - A_BATCH) / RATE - 1
    moments = await replayed_at(database_url)
    assert len(moments) == FAILED
    # What was late may catch up with a second's worth.
    for first, at in enumerate(moments):
        for last, later in enumerate(moments[first:], first):
            assert last - first + 1 <= RATE * ((later - at).total_seconds() + 1) + A_BATCH


async def replayed_at(database_url: str) -> list[datetime]:
    """Return when each delivery was replayed, in order."""
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch(
        """
        select (step ->> 'at')::timestamptz as at
        from tocsin.deliveries, jsonb_array_elements(decisions) as step
        where step ->> 'rule' = 'replay'
        order by at
        """
    )
    await connection.close()
    return [row["at"] for row in rows]


async def rotate_a_key(week: Week) -> Producer:
    """Give a producer a new key: both work until the old one is revoked; return the producer with that."""
    old = week.producer
    rotated = await week.json("keys", "rotate", "shop", "--overlap", "1h")
    week.producer = Producer(week.process, old.http, rotated["key"])
    for producer in (old, week.producer):
        await producer.delivery_in(await producer.notify(PEOPLE[0]), "sent")

    await week.tocsin("keys", "revoke", rotated["replaces"])
    return old


async def is_refused(producer: Producer) -> None:
    """Wait until the key of a producer stops working."""

    async def refused() -> bool:
        return (await producer.http.get("/v1/notifications", headers=producer.key)).status_code == 401

    await found(refused)


async def erase_a_person(week: Week, database_url: str) -> None:
    """Erase a person of whom an app, a producer and they themselves have left data everywhere."""
    traces = ["mina-4711", "mina.secret@mail.example", f"token-{uuid4().hex}", f"hook-{uuid4().hex}"]
    user_id, email, token, hook = traces
    http, key = week.producer.http, week.producer.key
    await week.producer.register(user_id, token)
    url = f"https://mail.example/{hook}"
    for answer in (
        await http.put(f"/v1/users/{user_id}", headers=key, json={"email": email, "locale": "tr"}),
        await http.post(f"/v1/users/{user_id}/webhooks", headers=key, json={"url": url}),
        await http.patch("/v1/preferences", headers=person(user_id), json={"offers": {"push": False}}),
    ):
        assert answer.is_success, answer.text
    later = {"send_at": (utc_now() + timedelta(hours=1)).isoformat(), "payload": {"customer_name": email}}
    await week.producer.notify(user_id)
    await week.producer.notify(user_id, PEOPLE[0])
    await week.producer.notify(user_id, **later)
    assert (await week.producer.post(user_id, payload={"customer_name": 7})).status_code == 422
    await week.waits_for(2, "--user", user_id, "--state", "sent")
    assert await found_in(database_url, traces) == set(traces)
    counted = len(await week.listed("--type", "new_customer"))

    erased = await week.json("users", "erase", user_id, "--yes")

    assert erased["state"] == "finished"
    assert (erased["devices"], erased["deliveries"], erased["cancelled"]) == (2, 3, 1)
    assert await found_in(database_url, traces) == set()
    assert f"Nothing is known of user {user_id}." in await week.fails("person", user_id)
    assert await week.tocsin("list", "--user", user_id) == "Nothing matches.\n"
    assert len(await week.listed("--type", "new_customer")) == counted
    [entry] = await week.json("audit", "--action", "user.erase")
    assert entry["subject"] == f"user:sha256:{erased['user_hash']}"


async def found_in(database_url: str, texts: Sequence[str]) -> set[str]:
    """Return which of the texts are anywhere in the database."""
    connection = await asyncpg.connect(database_url)
    tables = await connection.fetch(
        "select oid::regclass::text as name from pg_class where oid >= 16384 and relkind = 'r'"
    )
    # The names come from the catalog of the database.
    contains = "select exists(select from {} as row where position($1 in row::text) > 0)"
    seen = {
        text
        for table in tables
        for text in texts
        if await connection.fetchval(contains.format(table["name"]), text)
    }
    await connection.close()
    return seen


async def restore_a_backup(week: Week, database_url: str, folder: Path) -> None:
    """Lose the database, load the backup into an empty server, and go on."""
    await week.tocsin("providers", "pause", "fcm", "--reason", "maintenance")
    waiting = await week.producer.notify(*PEOPLE)
    sent = len(await week.listed("--type", "new_customer", "--state", "sent"))
    run_documented("pg_dump", database_url, folder)
    await week.stop()

    with mortal_folder() as data:
        server = EmbeddedPostgres(data)
        week.settings["TOCSIN_DATABASE_URL"] = server.start()
        run_documented("pg_restore", week.settings["TOCSIN_DATABASE_URL"], folder)
        await week.start()

        assert len(await week.listed("--type", "new_customer", "--state", "sent")) == sent
        assert "provider:fcm is switched off" in await week.tocsin("show", waiting)
        await week.tocsin("providers", "resume", "fcm")
        await week.waits_for(sent + len(PEOPLE), "--type", "new_customer", "--state", "sent")
        afterwards = await week.producer.notify(PEOPLE[0])
        await week.producer.delivery_in(afterwards, "sent")
        await week.stop()
        server.stop()
