"""The demo: a whole Tocsin with a sandbox, and a first notification to four virtual devices."""

import asyncio
import secrets
import socket
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import jwt
import msgspec

from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.cli.notifications.timeline import is_settled, print_timeline
from tocsin.cli.output import console
from tocsin.cli.run.serve import grace, server_children, started
from tocsin.cli.run.supervisor import run_tree
from tocsin.client import AsyncTocsin
from tocsin.compose.database import checked_pool
from tocsin.domain.errors import TocsinError
from tocsin.domain.people.devices import Platform, ProviderName
from tocsin.engine.clock import utc_now
from tocsin.engine.duty import pause
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.sandbox.appearance import appearance
from tocsin.settings.tree import Settings
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate


class DemoPerson(NamedTuple):
    """A user of the demo and their virtual device."""

    user_id: str
    locale: str
    device: str
    platform: Platform
    provider: ProviderName


PEOPLE = (
    DemoPerson("ada", "en", "an Android phone", "android", "fcm"),
    DemoPerson("kerem", "tr", "an iPhone", "ios", "apns"),
    DemoPerson("mina", "fa", "an Expo app", "android", "expo"),
    DemoPerson("jisoo", "ko", "a browser", "web", "webpush"),
)
READY_WITHIN = 60.0


async def run_demo(
    settings: Settings, folder: Path, exits: AsyncExitStack, stop: asyncio.Event, *, once: bool
) -> None:
    """Start every part, send a notification, print its timeline and serve until `stop`, unless `once`."""
    # What waits in a real outbox is not the demo's to publish, nor are real databases its to scan.
    settings = msgspec.structs.replace(settings, outboxes={})
    no_scans = folder / "periodic"
    no_scans.mkdir(exist_ok=True)
    embedded = EmbeddedPostgres(folder)
    with console.status("Starting Postgres …"):
        url = await started(embedded, exits)
    sandbox = await exits.enter_async_context(Sandbox(SandboxSettings(folder=folder / "sandbox")))
    await migrate(url, settings.schema, settings.pool)
    async with checked_pool(settings, url) as pool, pool.acquire() as connection:
        key = (await create_key(connection, "demo", Role.ADMIN, utc_now())).secret
    port, jwt_secret = _free_port(settings.http.port), secrets.token_hex(32)
    base_url = f"http://127.0.0.1:{port}"
    environment = {
        **settings_for(sandbox, folder / "sandbox"),
        "TOCSIN_HTTP__PORT": str(port),
        "TOCSIN_HTTP__HOST": "127.0.0.1",
        "TOCSIN_AUTH__JWT_SECRET": jwt_secret,
        # The demo sends at any hour.
        "TOCSIN_QUIET_HOURS__ENABLED": "false",
        "TOCSIN_PERIODIC__MODULES": "",
        "TOCSIN_PERIODIC__FOLDER": str(no_scans),
        "TOCSIN_LOG__LEVEL": "warning",
    }
    children = server_children(settings, url, **environment)
    ended = asyncio.Event()
    tree = asyncio.create_task(run_tree(children, ended, grace=grace(settings), embedded=embedded))
    tree.add_done_callback(lambda _: ended.set())
    try:
        with console.status("Starting the API and a worker …"):
            await _wait_until_listening(port, tree)
        async with AsyncTocsin(base_url, key) as client:
            await _send_first(client, sandbox, jwt_secret)
        if not once:
            _print_addresses(base_url, sandbox, key)
            await pause(None, stop, ended)
    except asyncio.CancelledError:
        tree.cancel()
        raise
    finally:
        ended.set()
        await tree


async def _send_first(client: AsyncTocsin, sandbox: Sandbox, jwt_secret: str) -> None:
    """Register a device for each person as its app does, and send them a notification."""
    names = []
    for person in PEOPLE:
        token, name = _token(sandbox, person)
        names.append(name)
        claims = {"sub": person.user_id, "iat": utc_now(), "exp": utc_now() + timedelta(minutes=5)}
        app = client.for_user(jwt.encode(claims, jwt_secret, "HS256"))
        await app.register_device(token, person.platform, provider=person.provider, locale=person.locale)
        await client.put_user(person.user_id, email=f"{person.user_id}@example.com", locale=person.locale)
    accepted = await client.send(
        "new_customer",
        users=[person.user_id for person in PEOPLE],
        payload={"customer_name": "Grace Hopper"},
        idempotency_key=f"demo-{secrets.token_hex(8)}",
    )
    async with asyncio.timeout(READY_WITHIN):
        shown = await client.show(accepted.notification_id)
        while not is_settled(shown):
            await asyncio.sleep(0.02)
            shown = await client.show(accepted.notification_id)
    print_timeline(shown)
    _print_phones(sandbox, names)


def _token(sandbox: Sandbox, person: DemoPerson) -> tuple[str, str]:
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


async def _wait_until_listening(port: int, tree: asyncio.Task[None]) -> None:
    async with asyncio.timeout(READY_WITHIN):
        while not tree.done():
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
    await tree


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
