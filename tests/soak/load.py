"""The people, the hostile hosts, and the producers that never give up."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import msgspec

from tests import rows
from tests.databases import SCHEMA
from tests.soak import catalog
from tests.soak.site import Site
from tocsin.domain.people.devices import token_hash
from tocsin.engine.clock import utc_now
from tocsin.store.pool import DATABASE_FAULTS, PoolSettings, open_pool

POISON_EVERY = 500
PEOPLE = 50
POSTERS = 12
PATIENCE = 60.0
HOSTILE = "hostile"
_SECRET = "whsec_" + "c29hay1zb2FrLXNvYWstc29hay1zb2Fr"
_KINDS = {catalog.PUSH: 50, catalog.MAIL: 20, catalog.HOOK: 15, catalog.LIMITED: 10, HOSTILE: 5}


class Load:
    """Hands in intents by HTTP and by an outbox, each as often as it takes to be accepted."""

    def __init__(self, site: Site, *, seed: int, rate: float) -> None:
        self.accepted: dict[int, str] = {}
        self.answers: Counter[int | str] = Counter()
        self.refused: list[str] = []
        self._site = site
        self._chance = random.Random(f"{seed} load")  # noqa: S311 - repeatable
        self._rate = rate
        self._number = 0
        self._limited = 0
        self._ended = asyncio.Event()
        self._given_up_at: float | None = None

    async def run(self, seconds: float) -> None:
        """Hand in intents for some seconds, then finish those under way."""
        address = f"http://127.0.0.1:{self._site.port}"
        headers = {"Authorization": f"Bearer {self._site.key}"}
        async with (
            httpx.AsyncClient(base_url=address, headers=headers, timeout=15) as http,
            asyncio.TaskGroup() as tasks,
        ):
            for _ in range(POSTERS):
                tasks.create_task(self._post_on(http))
            tasks.create_task(self._publish_on())
            await asyncio.sleep(seconds)
            self._ended.set()
            self._given_up_at = time.monotonic() + PATIENCE

    async def _post_on(self, http: httpx.AsyncClient) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            self._number += 1
            number = self._number
            await self._post(http, number, self._intent(number))
            await asyncio.sleep(max(0.0, began + POSTERS / self._rate - time.monotonic()))

    async def _post(self, http: httpx.AsyncClient, number: int, intent: dict[str, Any]) -> None:
        while self._given_up_at is None or time.monotonic() < self._given_up_at:
            try:
                answer = await http.post("/v1/notifications", json=intent)
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1
            else:
                self.answers[answer.status_code] += 1
                if answer.status_code in {200, 202}:
                    self.accepted[number] = answer.json()["notification_id"]
                    return
                if answer.status_code < 500 and answer.status_code != 429:
                    self.refused.append(answer.text)
                    return
            await asyncio.sleep(0.3)

    def _intent(self, number: int) -> dict[str, Any]:
        if number % POISON_EVERY == 0:
            kind = catalog.POISONS[number // POISON_EVERY % len(catalog.POISONS)]
            return _intent(number, kind, self._person(), catalog.POISONED)
        kind = self._chance.choices(list(_KINDS), list(_KINDS.values()))[0]
        if kind == catalog.LIMITED:
            self._limited += 1
            return _intent(number, kind, f"limited-{self._limited // catalog.LIMIT}")
        if kind == HOSTILE:
            return _intent(number, catalog.HOOK, self._chance.choice(HOSTILE_PEOPLE))
        return _intent(number, kind, self._person())

    def _person(self) -> str:
        return f"person-{self._chance.randrange(PEOPLE)}"

    async def _publish_on(self) -> None:
        """Write rows into the outbox of an application; the table says later which commits succeeded."""
        connection: asyncpg.Connection | None = None
        number = 0
        while not self._ended.is_set():
            number += 1
            body = _intent(number, catalog.PUSH, self._person())
            del body["idempotency_key"]
            try:
                if connection is None or connection.is_closed():
                    connection = await asyncpg.connect(self._site.shop_url, timeout=5)
                await connection.execute(
                    "select tocsin_publish($1::jsonb)", msgspec.json.encode(body).decode()
                )
            except DATABASE_FAULTS as error:
                self.answers[f"outbox: {type(error).__name__}"] += 1
                connection = None
            await asyncio.sleep(10 / self._rate)
        if connection is not None:
            await connection.close()


HOSTILE_PEOPLE = ("hostile-hanging", "hostile-refusing", "hostile-malformed", "hostile-garbage")


def _intent(number: int, kind: str, person: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": kind,
        "audience": {"users": [person]},
        "payload": {"number": number, "text": "soak"} if payload is None else payload,
        "idempotency_key": f"soak-{number}",
    }


async def add_people(site: Site, hostile: dict[str, str], limited: int) -> None:
    """Add people with a phone, a mailbox and a webhook each, and those whose webhooks do harm."""
    async with open_pool(site.url, SCHEMA, PoolSettings()) as pool, pool.acquire() as connection:
        for number in range(PEOPLE):
            person = f"person-{number}"
            await rows.add_user(connection, person, email=f"{person}@example.com")
            await rows.add_device(connection, person, token=f"phone-of-{person}", **_seen())
            await _add_hook(connection, person, f"{site.sandbox.https_url}/webhook/{person}")
        for number in range(limited):
            await rows.add_device(connection, f"limited-{number}", token=f"phone-{number}-limited", **_seen())
        for person, url in hostile.items():
            await _add_hook(connection, person, url)


async def _add_hook(connection: asyncpg.Connection, person: str, url: str) -> None:
    changes = {"provider": "webhook", "platform": "server", "secret": _SECRET, "token_hash": token_hash(url)}
    await rows.add_device(connection, person, token=url, **changes, **_seen())


def _seen() -> dict[str, Any]:
    return {"registered_at": utc_now(), "last_seen_at": utc_now()}


@asynccontextmanager
async def hostile_hosts() -> AsyncIterator[dict[str, str]]:
    """Yield the webhook of each hostile person: hosts that hang, refuse, answer garbage, or cannot exist."""

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass

    async def answer_garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\xff" * 2_000)
        writer.close()

    async with (
        await asyncio.start_server(hang, "127.0.0.2", 0) as hanging,
        await asyncio.start_server(answer_garbage, "127.0.0.4", 0) as garbage,
    ):
        urls = (
            f"https://127.0.0.2:{hanging.sockets[0].getsockname()[1]}/hook",
            "https://127.0.0.3:9/hook",
            "https://a..b.com/x",
            f"https://127.0.0.4:{garbage.sockets[0].getsockname()[1]}/hook",
        )
        yield dict(zip(HOSTILE_PEOPLE, urls, strict=True))
