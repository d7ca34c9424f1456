"""A whole installation: a database, a sandbox for FCM, and the processes of Tocsin around them."""

import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from tests.acceptance.processes import Process, Processes, processes_in
from tests.databases import SCHEMA
from tests.edges.edge import SECRET, person
from tests.waiting import found
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.store.pool import Pool, PoolSettings, open_pool

_LISTENING = """
select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen %'
"""


class Installation:
    """Starts processes on one database and one sandbox and speaks to them as callers do."""

    def __init__(self, *, url: str, pool: Pool, sandbox: Sandbox, folder: Path, processes: Processes) -> None:
        account = sandbox.write_service_account(folder / "service_account.json")
        self.pool = pool
        self.sandbox = sandbox
        self.processes = processes
        self.environment = {
            "TOCSIN_DATABASE_URL": url,
            "TOCSIN_HTTP__PORT": "0",
            "TOCSIN_AUTH__JWT_SECRET": SECRET,
            "TOCSIN_QUIET_HOURS__ENABLED": "false",
            "TOCSIN_FCM__BASE_URL": sandbox.https_url,
            "TOCSIN_FCM__CA_FILE": str(sandbox.ca_file),
            "TOCSIN_FCM__CREDENTIALS_FILE": str(account),
        }
        self._exits = contextlib.AsyncExitStack()

    async def start(self, command: str, before: str = "", **environment: str) -> Process:
        return await self.processes.start(
            command, environment={**self.environment, **environment}, before=before
        )

    async def start_api(self, **environment: str) -> "Producer":
        """Start the API and give a producer that knows its address and has a key."""
        process = await self.start("api", **environment)
        address = (await process.logged("api started"))["address"]
        client = httpx.AsyncClient(base_url=address, timeout=60)
        http = await self._exits.enter_async_context(client)
        made = await create_key(self.pool, "shop", Role.PRODUCER, utc_now())
        return Producer(process, http, made.secret)

    async def start_workers(self, *environments: dict[str, str], before: str = "") -> list[Process]:
        """Start one worker for each environment and wait until all of them listen."""
        listening = await self.pool.fetchval(_LISTENING)
        started = [await self.start("worker", before, **environment) for environment in environments]
        await found(lambda: self._listening(started, listening), within=60)
        return started

    async def start_worker(self, before: str = "", **environment: str) -> Process:
        """Start a worker; `before` is a statement that its process runs first."""
        [process] = await self.start_workers(environment, before=before)
        return process

    async def _listening(self, started: Sequence[Process], before: int) -> bool:
        for process in started:
            assert not process.ended, process.log
        return bool(await self.pool.fetchval(_LISTENING) >= before + len(started))

    async def deliveries(self, condition: str) -> int:
        """Count the deliveries for which a condition holds."""
        # The conditions are written in the tests.
        count: int = await self.pool.fetchval(f"select count(*) from deliveries where {condition}")  # noqa: S608
        return count

    async def expire_leases(self) -> None:
        """End every lease at once, as if its time had passed."""
        while True:
            try:
                await self.pool.execute("update deliveries set leased_until = now() where lease is not null")
            except asyncpg.DeadlockDetectedError:
                # The server still executes the last statement of a worker that was killed.
                continue
            return

    async def until_sent(self, count: int, *, within: float = 60) -> None:
        """Wait until exactly so many deliveries are sent and settled."""

        async def look() -> bool:
            return await self.deliveries("state = 'sent'") == count

        await found(look, within=within)

    async def close(self) -> None:
        await self._exits.aclose()


class Producer:
    """The API as producers and people's apps meet it."""

    def __init__(self, process: Process, http: httpx.AsyncClient, key: str) -> None:
        self.process = process
        self.http = http
        self.key = {"Authorization": f"Bearer {key}"}

    async def register(self, user_id: str, token: str, **fields: Any) -> dict[str, Any]:
        """Register a phone as its app does."""
        body = {"token": token, "platform": "android", **fields}
        answer = await self.http.post("/v1/devices/register", headers=person(user_id), json=body)
        return _checked(answer, 200)

    async def register_many(self, count: int) -> dict[str, str]:
        """Give so many people a phone each: user id to token."""
        phones = {f"user-{number}": f"phone-{number}-{uuid.uuid4().hex}" for number in range(count)}
        for user_id, token in phones.items():
            await self.register(user_id, token)
        return phones

    async def devices(self, user_id: str) -> list[dict[str, Any]]:
        answer = await self.http.get(
            "/v1/devices", params={"include_retired": "true"}, headers=person(user_id)
        )
        devices: list[dict[str, Any]] = _checked(answer, 200)["devices"]
        return devices

    async def post(self, *user_ids: str, **changes: Any) -> httpx.Response:
        return await self.http.post("/v1/notifications", headers=self.key, json=intent(*user_ids, **changes))

    async def notify(self, *user_ids: str, **changes: Any) -> str:
        """Hand in a notification and give its id."""
        answered = _checked(await self.post(*user_ids, **changes), 202)
        assert answered["status"] == "accepted"
        notification_id: str = answered["notification_id"]
        return notification_id

    async def notify_many(self, user_ids: Sequence[str], times: int) -> None:
        """Hand in so many notifications to all of the people, in one batch."""
        body = {"notifications": [intent(*user_ids) for _ in range(times)]}
        answer = await self.http.post("/v1/notifications/batch", headers=self.key, json=body)
        results = _checked(answer, 200)["results"]
        assert [result["status"] for result in results] == ["accepted"] * times

    async def show(self, notification_id: str) -> dict[str, Any]:
        return _checked(await self.http.get(f"/v1/notifications/{notification_id}", headers=self.key), 200)

    async def deliveries_in(self, notification_id: str, *states: str) -> list[dict[str, Any]]:
        """Wait until every delivery of a notification stands in one of the states, and give them."""

        async def look() -> list[dict[str, Any]]:
            deliveries: list[dict[str, Any]] = (await self.show(notification_id))["deliveries"]
            return deliveries if all(delivery["state"] in states for delivery in deliveries) else []

        return await found(look)

    async def delivery_in(self, notification_id: str, *states: str) -> dict[str, Any]:
        """Wait for the only delivery of a notification."""
        [delivery] = await self.deliveries_in(notification_id, *states)
        return delivery


def intent(*user_ids: str, **changes: Any) -> dict[str, Any]:
    fields = {
        "type": "new_customer",
        "audience": {"users": user_ids},
        "payload": {"customer_name": "Ali Veli"},
        "idempotency_key": uuid.uuid4().hex,
    }
    return fields | changes


@contextlib.asynccontextmanager
async def installed(
    url: str, folder: Path, sandbox_settings: SandboxSettings | None = None
) -> AsyncIterator[Installation]:
    """Give an installation on a migrated database, with no process started yet."""
    async with (
        Sandbox(sandbox_settings) as sandbox,
        open_pool(url, SCHEMA, PoolSettings()) as pool,
        processes_in(folder) as processes,
    ):
        made = Installation(url=url, pool=pool, sandbox=sandbox, folder=folder, processes=processes)
        try:
            yield made
        finally:
            await made.close()


def _checked(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    content: dict[str, Any] = answer.json()
    return content
