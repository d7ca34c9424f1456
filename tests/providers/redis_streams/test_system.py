"""The API and a worker with both providers, from the settings alone, as operators and producers see them."""

import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from tests.edges.edge import SECRET
from tests.providers.redis_streams.rig import TABLES
from tests.redis_servers import RedisServer
from tests.running import running
from tests.serving import serving
from tests.waiting import found
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.compose.catalog import read_catalog
from tocsin.compose.worker import open_worker
from tocsin.domain.errors import SettingsError
from tocsin.engine.clock import utc_now
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings
from tocsin.store.pool import Pool

GALAXY = Path(__file__).parents[3] / "examples" / "galaxy"
EVENTS, COMMANDS = "gateway:client-events", "mail:delivery_commands"
FINISHED = {
    "type": "game.finished",
    "audience": {"users": ["ada"]},
    "payload": {"game_id": "game-7", "game_name": "Nova", "final_turn_number": 120},
    "idempotency_key": "k1",
}
EVENT = """
  event:
    table: notification.GameFinishedEvent
    fields: [game_id, final_turn_number]"""


class Client:
    """Calls the API as an operator who may produce, too."""

    def __init__(self, http: httpx.AsyncClient, producer: str, operator: str) -> None:
        self._http = http
        self._producer = {"Authorization": f"Bearer {producer}"}
        self._operator = {"Authorization": f"Bearer {operator}"}

    async def get(self, path: str, **query: str) -> Any:
        return (await self._http.get(path, params=query, headers=self._operator)).json()

    async def post(self, path: str, body: Any) -> Any:
        headers = self._operator if "admin" in path else self._producer
        answer = await self._http.post(path, json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    async def put_user(self, user_id: str) -> None:
        body = {"email": f"{user_id}@example.org", "locale": "en"}
        answer = await self._http.put(f"/v1/users/{user_id}", json=body, headers=self._producer)
        assert answer.is_success, answer.text

    async def settled(self, notification_id: str, state: str) -> list[Any]:
        """Wait until every delivery is in a state."""

        async def look() -> list[Any] | None:
            shown = await self.get(f"/v1/notifications/{notification_id}")
            deliveries: list[Any] = shown["deliveries"]
            return deliveries if {each["state"] for each in deliveries} == {state} else None

        return await found(look)


@pytest.fixture
async def client(
    database_url: str, pool: Pool, redis: Redis, redis_server: RedisServer
) -> AsyncIterator[Client]:
    assert await redis.ping()
    async with serving(settings_for(redis_server.url), database_url) as http:
        made = [
            await create_key(pool, "game_master", role, utc_now()) for role in (Role.PRODUCER, Role.OPERATOR)
        ]
        client = Client(http, *(each.secret for each in made))
        await client.put_user("ada")
        yield client


def settings_for(
    redis_url: str, tables: Path = GALAXY / "tables", catalog: Path = GALAXY / "catalog"
) -> Settings:
    environ = {
        "TOCSIN_CATALOG": str(catalog),
        "TOCSIN_REDIS__URL": redis_url,
        "TOCSIN_GATEWAY_STREAM__ENABLED": "true",
        "TOCSIN_GATEWAY_STREAM__TABLES": str(tables),
        "TOCSIN_MAIL_STREAM__ENABLED": "true",
        "TOCSIN_AUTH__JWT_SECRET": SECRET,
        "TOCSIN_QUIET_HOURS__ENABLED": "false",
        "TOCSIN_DISPATCH__LEASE_SECONDS": "5",
        "TOCSIN_DISPATCH__POLL_SECONDS": "0.02",
        "TOCSIN_DELIVERY__ATTEMPTS": "1",
        "TOCSIN_DELIVERY__RECOVER_FOR_DAYS": "0",
    }
    return load_settings(environ, Path("/dev/null"))


async def test_what_is_handed_off_is_explained_shown_found_and_counted(client: Client) -> None:
    explained = await client.post("/v1/notifications/explain", FINISHED)
    accepted = await client.post("/v1/notifications", FINISHED)
    deliveries = await client.settled(accepted["notification_id"], "sent")
    providers = (await client.get("/v1/admin/providers"))["providers"]
    queue = await client.get("/v1/admin/queue")
    by_provider = [
        (await client.get("/v1/notifications", provider=name, status="published"))["items"]
        for name in ("gateway_stream", "mail_stream", "smtp")
    ]

    routes = {route["route_id"]: route["devices"] for route in explained["routes"]}
    assert {route: [each["provider"] for each in devices] for route, devices in routes.items()} == {
        "push:user:ada": ["gateway_stream"],
        "email:user:ada": ["mail_stream"],
    }
    assert {(each["route_id"], each["provider"], each["status"]) for each in deliveries} == {
        ("push:user:ada", "gateway_stream", "published"),
        ("email:user:ada", "mail_stream", "published"),
    }
    assert all(each["provider_message_id"] for each in deliveries)
    assert {(each["name"], each["channel"], each["state"]) for each in providers} == {
        ("gateway_stream", "push", "closed"),
        ("mail_stream", "email", "closed"),
    }
    assert {"gateway_stream", "mail_stream"} <= {lane["lane"] for lane in queue["lanes"]}
    assert [len(items) for items in by_provider] == [1, 1, 0]


async def test_a_dead_letter_says_how_to_recover_and_its_replay_has_the_same_id(
    client: Client, redis: Redis
) -> None:
    await redis.set(EVENTS, "no stream")
    accepted = await client.post("/v1/notifications", FINISHED)

    async def dead() -> Any:
        return (await client.get("/v1/admin/dead-letters"))["groups"]

    (group,) = await found(dead)
    await redis.delete(EVENTS)
    await client.post(
        "/v1/admin/dead-letters/replay", {"filter": {"code": group["code"], "provider": group["provider"]}}
    )
    await client.settled(accepted["notification_id"], "sent")

    assert (group["state"], group["code"]) == ("dead", "gateway_stream_publish_failed")
    assert group["example"]["error"].startswith("WRONGTYPE ")
    selection = (
        "--state dead --code gateway_stream_publish_failed --provider gateway_stream --type game.finished"
    )
    assert group["recovery_hint"] == (
        "Redis did not take the event. Check the server. Once the cause is fixed: "
        f"`tocsin dead replay {selection}`, or a new intent with a new key."
    )
    found_entries: Any = await redis.xrange(EVENTS)
    ((_, event),) = found_entries
    assert event[b"event_id"].decode() == f"{accepted['notification_id']}/push:user:ada"
    assert await redis.xlen(COMMANDS) == 1


async def test_an_event_without_its_table_stops_the_start_of_a_worker(
    database_url: str, redis_server: RedisServer
) -> None:
    settings = settings_for(redis_server.url, TABLES)

    with pytest.raises(SettingsError) as caught:
        async with open_worker(settings, database_url, read_catalog(settings)):
            raise AssertionError("it started")

    faults = {fault.field: fault.message for fault in caught.value.faults}
    assert len(faults) == 10
    assert faults["game.finished v1"] == "gateway_stream.tables has no table notification.GameFinishedEvent"


def change(catalog: Path, text: str, other: str) -> None:
    """Replace a text in the declarations of the galaxy's games."""
    types = catalog / "types" / "game.yaml"
    declared = types.read_text()
    assert text in declared
    types.write_text(declared.replace(text, other))


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """Give a copy of the galaxy's catalog."""
    return shutil.copytree(GALAXY / "catalog", tmp_path / "catalog")


async def test_a_push_without_an_event_stops_the_start_of_a_worker(
    database_url: str, redis_server: RedisServer, catalog: Path
) -> None:
    change(catalog, EVENT, "")
    (push := catalog / "templates/game.finished/en").mkdir(exist_ok=True)
    (push / "push.title.j2").write_text("Finished")
    (push / "push.body.j2").write_text("{{ game_name }}")
    settings = settings_for(redis_server.url, catalog=catalog)

    with pytest.raises(SettingsError) as caught:
        async with open_worker(settings, database_url, read_catalog(settings)):
            raise AssertionError("it started")

    (fault,) = caught.value.faults
    assert (fault.field, fault.code) == ("game.finished v1", "event")
    assert fault.message.startswith("has no event, so none of its pushes could be encoded")


async def test_a_worker_keeps_its_catalog_when_one_has_an_event_without_a_table(
    database_url: str, pool: Pool, redis_server: RedisServer, catalog: Path
) -> None:
    settings = settings_for(redis_server.url, catalog=catalog)
    used = read_catalog(settings)
    before = used.fingerprint
    async with open_worker(settings, database_url, used) as worker, running(worker):
        await found(lambda: pool.fetchval("select catalog from processes"))
        change(catalog, "notification.GameFinishedEvent", "notification.GameOverEvent")
        os.kill(os.getpid(), signal.SIGHUP)
        fault = await found(lambda: pool.fetchval("select catalog_fault from processes"))

    assert "game.finished v1: gateway_stream.tables has no table notification.GameOverEvent" in fault
    assert used.fingerprint == before
