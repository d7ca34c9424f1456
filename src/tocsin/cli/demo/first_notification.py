"""The demo: a whole Tocsin with a sandbox, a first notification to four virtual devices, and its page."""

import asyncio
import secrets
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.api.server import PortTakenError
from tocsin.catalog.load import shipped_catalog
from tocsin.cli.demo.page.calls import Access
from tocsin.cli.demo.page.serving import PageListener, listening_for_page, opened_stage, served_page
from tocsin.cli.demo.page.site import HOST
from tocsin.cli.demo.page.stage import Stage
from tocsin.cli.demo.people import PEOPLE
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.cli.notifications.timeline import is_settled, print_timeline
from tocsin.cli.output import console
from tocsin.cli.run.serve import grace, server_children, started
from tocsin.cli.run.supervisor import run_tree
from tocsin.compose.database import checked_pool
from tocsin.domain.errors import TocsinError
from tocsin.engine.clock import utc_now
from tocsin.engine.duty import pause
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.sandbox.appearance import appearance
from tocsin.settings.tree import Settings
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate

PAGE_PORT = 8480
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
    listener = None if once else await _listen_for_page(exits)
    port = _free_port(settings.http.port)
    access = await _create_access(settings, url, port)
    environment = {
        **settings_for(sandbox, folder / "sandbox"),
        **_settings_of_demo(port, access, listener),
        "TOCSIN_PERIODIC__FOLDER": str(no_scans),
    }
    children = server_children(settings, url, **environment)
    ended = asyncio.Event()
    tree = asyncio.create_task(run_tree(children, ended, grace=grace(settings), embedded=embedded))
    tree.add_done_callback(lambda _: ended.set())
    try:
        with console.status("Starting the API and a worker …"):
            await _wait_until_listening(port, tree)
        async with opened_stage(sandbox, access) as stage:
            await _send_first(stage)
            if listener is not None:
                async with served_page(listener, stage, access) as page_url:
                    _print_addresses(page_url, access, sandbox)
                    await pause(None, stop, ended)
    except asyncio.CancelledError:
        tree.cancel()
        raise
    finally:
        ended.set()
        await tree


async def _listen_for_page(exits: AsyncExitStack) -> PageListener:
    """Listen on the usual port of the page, or print that it is taken and take a free one."""
    try:
        return await exits.enter_async_context(listening_for_page(PAGE_PORT))
    except PortTakenError:
        _print_taken(PAGE_PORT)
        return await exits.enter_async_context(listening_for_page(0))


async def _create_access(settings: Settings, url: str, port: int) -> Access:
    """Create the keys of the demo, each with the rights that it needs and no more."""
    async with checked_pool(settings, url) as pool, pool.acquire() as connection:
        producer = await create_key(connection, "demo", Role.PRODUCER, utc_now())
        operator = await create_key(connection, "demo-operator", Role.OPERATOR, utc_now())
    return Access(
        base_url=f"http://{HOST}:{port}",
        producer_key=producer.secret,
        operator_key=operator.secret,
        jwt_secret=secrets.token_hex(32),
    )


def _settings_of_demo(port: int, access: Access, listener: PageListener | None) -> dict[str, str]:
    return {
        "TOCSIN_HTTP__PORT": str(port),
        "TOCSIN_HTTP__HOST": HOST,
        "TOCSIN_AUTH__JWT_SECRET": access.jwt_secret,
        "TOCSIN_CATALOG": str(shipped_catalog()),
        "TOCSIN_DASHBOARD__ENABLED": "true",
        # People of the demo are where it is day; the page moves them to where it is night.
        "TOCSIN_QUIET_HOURS__ENABLED": "true",
        "TOCSIN_QUIET_HOURS__START": "09:00",
        "TOCSIN_QUIET_HOURS__END": "22:00",
        # Switches are turned more often than apps are installed.
        "TOCSIN_DEVICES__REGISTRATIONS_PER_HOUR": "3600",
        "TOCSIN_PERIODIC__MODULES": "",
        "TOCSIN_LOG__LEVEL": "warning",
        "TOCSIN_LOG__FORMAT": "console",
        **({"TOCSIN_DASHBOARD__FRAMED_BY": f"http://{HOST}:{listener.port}"} if listener else {}),
    }


def _print_taken(port: int) -> None:
    console.print(f"[yellow]Port {port} is taken by another process; taking a free one.[/]")


async def _send_first(stage: Stage) -> None:
    """Register a device for each person as its app does, and send them a notification."""
    for person in PEOPLE:
        await stage.enter(person)
    accepted = await stage.send("new_customer", list(stage.people), {"customer_name": "Grace Hopper"})
    async with asyncio.timeout(READY_WITHIN):
        shown = await stage.calls.producer.show(accepted.notification_id)
        while not is_settled(shown):
            await asyncio.sleep(0.02)
            shown = await stage.calls.producer.show(accepted.notification_id)
    print_timeline(shown)
    console.print("\n[bold]On their devices[/]")
    for person in PEOPLE:
        for received in stage.messages_of(person):
            look = appearance(received)
            console.print(f"  {person.user_id} ({person.device}): [bold]{look.title}[/]: {look.body}")


async def _wait_until_listening(port: int, tree: asyncio.Task[None]) -> None:
    async with asyncio.timeout(READY_WITHIN):
        while not tree.done():
            try:
                _, writer = await asyncio.open_connection(HOST, port)
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
                probe.bind((HOST, port))
            except OSError:
                _print_taken(port)
                continue
            return int(probe.getsockname()[1])
    raise TocsinError("There is no free port on 127.0.0.1.")


def _print_addresses(page_url: str, access: Access, sandbox: Sandbox) -> None:
    base_url = access.base_url
    console.print("\n[bold]Running[/]")
    console.print(f"  dashboard {base_url}/dashboard  (the demo's page signs you in)")
    console.print(f"  API       {base_url}  (OpenAPI at /openapi.json)")
    console.print(f"  sandbox   {sandbox.http_url}/  (everything that arrives)")
    console.print("\n[bold]Open the demo[/]: phones, switches, dashboard and a tour of seven steps\n")
    console.print(f"  {page_url}\n", soft_wrap=True, markup=False)
    console.print("Or send one yourself:\n")
    intent = {
        "type": "new_customer",
        "audience": {"users": ["ada"]},
        "payload": {"customer_name": "Ali Veli"},
        "idempotency_key": "my-first-key",
    }
    console.print(
        f"curl -s {base_url}/v1/notifications \\\n"
        f"  -H 'Authorization: Bearer {access.producer_key}' \\\n"
        f"  -d '{msgspec.json.encode(intent).decode()}'\n",
        soft_wrap=True,
        markup=False,
    )
    console.print("Ctrl-C stops everything.")
