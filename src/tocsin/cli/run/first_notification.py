"""The demo: a whole Tocsin with a sandbox, and a first notification to four virtual devices."""

import asyncio
import secrets
import socket
import time
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import jwt
import msgspec
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.cli.notifications.timeline import is_settled, print_timeline
from tocsin.cli.output import console
from tocsin.cli.run.serve import grace, server_children
from tocsin.cli.run.stand_ins import settings_for
from tocsin.cli.run.supervisor import run_tree
from tocsin.compose import migrated_pool
from tocsin.domain.errors import TocsinError
from tocsin.engine.clock import utc_now
from tocsin.engine.inspect.show import show
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.sandbox.appearance import appearance
from tocsin.settings import Settings
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.pool import Pool
from tocsin.wire.notifications import Notification


class Person(NamedTuple):
    """A user of the demo and their virtual device."""

    user_id: str
    locale: str
    device: str
    platform: str
    provider: str


PEOPLE = (
    Person("ada", "en", "an Android phone", "android", "fcm"),
    Person("kerem", "tr", "an iPhone", "ios", "apns"),
    Person("mina", "fa", "an Expo app", "android", "expo"),
    Person("jisoo", "ko", "a browser", "web", "webpush"),
)
READY_WITHIN = 60.0


class Demo:
    """Starts every part, sends a notification, prints its timeline and serves until stopped."""

    def __init__(self, settings: Settings, folder: Path, exits: AsyncExitStack) -> None:
        self._settings = settings
        self._folder = folder
        self._exits = exits
        self._jwt_secret = secrets.token_hex(32)

    async def run(self, stop: asyncio.Event, *, once: bool) -> None:
        """Run until `stop` is set, or end after the first notification."""
        embedded = EmbeddedPostgres(self._folder)
        with console.status("Starting Postgres …"):
            url = await asyncio.to_thread(embedded.start)
            self._exits.push_async_callback(asyncio.to_thread, embedded.stop)
        sandbox = await self._exits.enter_async_context(
            Sandbox(SandboxSettings(folder=self._folder / "sandbox"))
        )
        pool = await self._exits.enter_async_context(migrated_pool(self._settings, url))
        base_url = f"http://127.0.0.1:{_free_port(self._settings.http.port)}"
        children = server_children(self._settings, url, **self._environment(sandbox, base_url))
        ended = asyncio.Event()
        tree = asyncio.create_task(run_tree(children, ended, grace=grace(self._settings), embedded=embedded))
        try:
            key = await self._send_first(pool, sandbox, base_url, tree)
            if not once:
                _print_addresses(base_url, sandbox, key)
                await _wait_for_either(stop.wait(), tree)
        finally:
            ended.set()
            await tree

    def _environment(self, sandbox: Sandbox, base_url: str) -> Mapping[str, str]:
        return {
            **settings_for(sandbox, self._folder / "sandbox"),
            "TOCSIN_HTTP__PORT": base_url.rpartition(":")[2],
            "TOCSIN_HTTP__HOST": "127.0.0.1",
            "TOCSIN_AUTH__JWT_SECRET": self._jwt_secret,
            # The demo sends at any hour.
            "TOCSIN_QUIET_HOURS__ENABLED": "false",
            "TOCSIN_LOG__LEVEL": "warning",
        }

    async def _send_first(self, pool: Pool, sandbox: Sandbox, base_url: str, tree: asyncio.Task[None]) -> str:
        async with ClientBuilder().base_url(base_url).error_for_status(True).build() as client:
            with console.status("Starting the API and a worker …"):
                await _wait_until_ready(client, tree)
            async with pool.acquire() as connection:
                key = (await create_key(connection, "demo", Role.ADMIN, utc_now())).secret
            tokens = [await self._register(client, sandbox, person) for person in PEOPLE]
            for person in PEOPLE:
                await _put_user(client, key, person)
            notification_id = await _first_notification(client, key)
            shown = await _wait_until_settled(pool, notification_id)
        print_timeline(shown)
        _print_phones(sandbox, tokens)
        return key

    async def _register(self, client: Client, sandbox: Sandbox, person: Person) -> str:
        """Register a device as its app does; return its name in the sandbox."""
        token, sandbox_name = _token(sandbox, person)
        now = int(time.time())
        claims = {"sub": person.user_id, "iat": now, "exp": now + 300}
        body = {
            "token": token,
            "platform": person.platform,
            "provider": person.provider,
            "locale": person.locale,
        }
        await (
            client.post("/v1/devices/register")
            .bearer_auth(jwt.encode(claims, self._jwt_secret, "HS256"))
            .body_json(body)
            .build()
            .send()
        )
        return sandbox_name


def _token(sandbox: Sandbox, person: Person) -> tuple[str, str]:
    """Return a device's token and its name in the sandbox."""
    match person.provider:
        case "webpush":
            return msgspec.json.encode(sandbox.subscription(person.user_id)).decode(), person.user_id
        case "apns":
            token = secrets.token_hex(32)
        case "expo":
            token = f"ExponentPushToken[{person.user_id}-{secrets.token_hex(8)}]"
        case _:
            token = f"virtual-phone-of-{person.user_id}-{secrets.token_hex(8)}"
    return token, token


async def _put_user(client: Client, key: str, person: Person) -> None:
    """Store a user's e-mail address and language."""
    user = {"email": f"{person.user_id}@example.com", "locale": person.locale}
    await client.put(f"/v1/users/{person.user_id}").bearer_auth(key).body_json(user).build().send()


async def _first_notification(client: Client, key: str) -> UUID:
    intent = {
        "type": "new_customer",
        "audience": {"users": [person.user_id for person in PEOPLE]},
        "payload": {"customer_name": "Grace Hopper"},
        "idempotency_key": f"demo-{secrets.token_hex(8)}",
    }
    response = await client.post("/v1/notifications").bearer_auth(key).body_json(intent).build().send()
    return UUID((await response.json())["notification_id"])


async def _wait_until_ready(client: Client, tree: asyncio.Task[None]) -> None:
    async with asyncio.timeout(READY_WITHIN):
        while not tree.done():
            try:
                await client.get("/readyz").build().send()
            except PyreqwestError:
                await asyncio.sleep(0.05)
            else:
                return
    await tree


async def _wait_until_settled(pool: Pool, notification_id: UUID) -> Notification:
    async with asyncio.timeout(READY_WITHIN), pool.acquire() as connection:
        while True:
            shown = await show(connection, notification_id, utc_now())
            if shown and is_settled(shown):
                return shown
            await asyncio.sleep(0.02)


async def _wait_for_either(stopped: Coroutine[Any, Any, Any], tree: asyncio.Task[None]) -> None:
    stopping = asyncio.create_task(stopped)
    await asyncio.wait([stopping, tree], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


def _free_port(wanted: int) -> int:
    """Return the wanted port, or print that it is taken and return a free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                console.print(f"[yellow]Port {port} is taken by another process; taking a free one.[/]")
                continue
            return int(probe.getsockname()[1])
    raise TocsinError("There is no free port on 127.0.0.1.")


def _print_phones(sandbox: Sandbox, tokens: list[str]) -> None:
    console.print("\n[bold]On their devices[/]")
    for person, token in zip(PEOPLE, tokens, strict=True):
        phone = sandbox.phones.find(token)
        for received in phone.messages if phone else ():
            shown = appearance(received)
            console.print(f"  {person.user_id} ({person.device}): [bold]{shown.title}[/]: {shown.body}")


def _print_addresses(base_url: str, sandbox: Sandbox, key: str) -> None:
    console.print("\n[bold]Running[/]")
    console.print(f"  API       {base_url}  (OpenAPI at /openapi.json)")
    console.print(f"  sandbox   {sandbox.http_url}/  (phones, browsers and mailboxes, live)")
    console.print("\nSend one yourself:\n")
    intent = {
        "type": "new_customer",
        "audience": {"users": ["ada"]},
        "payload": {"customer_name": "Ali Veli"},
        "idempotency_key": "my-first-key",
    }
    console.print(
        f"curl -s {base_url}/v1/notifications \\\n"
        f"  -H 'Authorization: Bearer {key}' \\\n"
        f"  -d '{msgspec.json.encode(intent).decode()}'\n",
        soft_wrap=True,
        markup=False,
    )
    console.print("Ctrl-C stops everything.")
