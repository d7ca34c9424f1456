"""What every example needs: Postgres, a sandbox with virtual phones, and Tocsin itself.

The parts are the real ones. In production an application has the same calls and other addresses.
"""

import asyncio
import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Literal
from urllib.parse import urlsplit

import asyncpg
import jwt
import msgspec
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from examples.demonstration import TIMEOUT_SECONDS, ExampleError, say, until
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.client import AsyncPerson, AsyncTocsin
from tocsin.compose.database import checked_pool
from tocsin.engine.clock import utc_now
from tocsin.ingress.outbox.install import install_sql
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.sandbox.appearance import Appearance, appearance
from tocsin.settings.tree import Settings
from tocsin.store.embedded import EmbeddedPostgres

READY, FAULTS = 200, 500
FOREIGN = ("TOCSIN_", "NOTIFICATION_")
"""What is set for another Tocsin on this machine is not for the example."""


class Receiver(msgspec.Struct, frozen=True):
    """A person's virtual phone or mailbox."""

    name: str
    address: str
    sandbox: Sandbox

    def received(self) -> list[Appearance]:
        """Return what has arrived so far, as it is shown."""
        known = self.sandbox.phones.find(self.address)
        return [appearance(received) for received in known.messages] if known else []

    async def show(self, count: int) -> None:
        """Wait for a number of messages and print all of them, including unexpected ones."""

        async def arrived() -> bool:
            return len(self.received()) >= count

        await until(arrived, f"message {count} to arrive: {self.name}")
        say(f"  {self.name}: {len(self.received())}")
        for shown in self.received():
            say(f"    {shown.title} | {shown.body.splitlines()[0]}")


class Playground:
    """Everything that runs with the example and stops when it ends."""

    def __init__(self, config: Path | None, folder: Path, sandbox: Sandbox, server_url: str) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self.database_url = server_url
        self.base_url = f"http://127.0.0.1:{free_port()}"
        self.jwt_secret = secrets.token_hex(32)
        self._exits = AsyncExitStack()
        self._settings = {
            **settings_for(sandbox, folder),
            **({"TOCSIN_CONFIG": str(config)} if config else {}),
            "TOCSIN_DATABASE_URL": server_url,
            "TOCSIN_HTTP__PORT": self.base_url.rpartition(":")[2],
            "TOCSIN_AUTH__JWT_SECRET": self.jwt_secret,
            # An example works at any hour.
            "TOCSIN_QUIET_HOURS__ENABLED": "false",
            "TOCSIN_LOG__LEVEL": "warning",
        }

    async def create_database(self, name: str) -> str:
        """Create a database with an outbox for the application; return its address."""
        url = urlsplit(self.database_url)._replace(path=f"/{name}").geturl()
        await _execute(self.database_url, f"create database {name}")
        # The same as `tocsin outbox install --url …`.
        await _execute(url, install_sql())
        return url

    async def start_tocsin(self, **settings: str) -> None:
        """Run `tocsin serve` until the example ends, and wait until it answers."""
        say("Starting Tocsin …")
        process = await self.run(sys.executable, "-m", "tocsin.cli", "serve", **self._settings | settings)
        await answers(f"{self.base_url}/readyz", process)

    async def key(self, name: str, role: Role = Role.PRODUCER) -> str:
        """Create an API key, as `tocsin keys create` does."""
        async with checked_pool(Settings(), self.database_url) as pool, pool.acquire() as connection:
            return (await create_key(connection, name, role, utc_now())).secret

    async def client(self, producer: str) -> AsyncTocsin:
        """Return a client with its own key."""
        client = AsyncTocsin(self.base_url, await self.key(producer))
        return await self._exits.enter_async_context(client)

    def app(self, client: AsyncTocsin, owner: str) -> AsyncPerson:
        """Return a client as a person's app, with a token of that person."""
        return client.for_user(self.token(owner))

    def token(self, owner: str) -> str:
        """Return a token of a person, as the application's own sign-in issues it."""
        now = int(time.time())
        return jwt.encode({"sub": owner, "iat": now, "exp": now + 3600}, self.jwt_secret, "HS256")

    async def phone(
        self, client: AsyncTocsin, owner: str, *, locale: str, provider: Literal["fcm", "expo"]
    ) -> Receiver:
        """Create a virtual phone and register it for a person."""
        mark = f"{owner}-{secrets.token_hex(8)}"
        token = f"ExponentPushToken[{mark}]" if provider == "expo" else mark
        await self.app(client, owner).register_device(token, "android", provider=provider, locale=locale)
        return Receiver(f"phone of {owner}", token, self.sandbox)

    async def run(self, *command: str, **environment: str) -> asyncio.subprocess.Process:
        """Start a process that ends with the example."""
        return await self._start(command, environment)

    async def run_logged(self, log: Path, *command: str, **environment: str) -> asyncio.subprocess.Process:
        """Start a process that ends with the example, and that prints to a file."""
        with log.open("w") as output:
            return await self._start(command, environment, output)

    async def _start(
        self, command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None = None
    ) -> asyncio.subprocess.Process:
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        # In a session of its own, Ctrl-C reaches the example alone, which then stops the rest in order.
        process = await asyncio.create_subprocess_exec(
            *command, env={**own, **environment}, start_new_session=True, stdout=output
        )
        self._exits.push_async_callback(_end, process)
        return process

    async def close(self) -> None:
        """Stop what was started, the last one first."""
        await self._exits.aclose()


@asynccontextmanager
async def playground(config: Path | None = None) -> AsyncIterator[Playground]:
    """Start Postgres and the sandbox in a temporary folder; a file may have the settings of Tocsin."""
    say("Starting Postgres and a sandbox …")
    async with AsyncExitStack() as exits:
        folder = exits.enter_context(_open_folder())
        postgres = EmbeddedPostgres(folder)
        # Not in a thread, where an interrupt could leave it running with nobody to stop it.
        url = postgres.start()
        exits.callback(postgres.stop)
        sandbox = await exits.enter_async_context(Sandbox(SandboxSettings(folder=folder / "sandbox")))
        made = Playground(config, folder / "sandbox", sandbox, url)
        exits.push_async_callback(made.close)
        yield made


async def answers(url: str, process: asyncio.subprocess.Process, *, ready: bool = False) -> None:
    """Wait until a process that was started answers at an address, or that it is ready there."""

    async def look() -> bool:
        if process.returncode is not None:
            raise ExampleError(f"The process that should answer at {url} has ended.")
        try:
            response = await client.get(url).build().send()
        except PyreqwestError:
            return False
        return response.status == READY if ready else response.status < FAULTS

    async with ClientBuilder().build() as client:
        await until(look, f"an answer from {url}")


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _open_folder() -> Iterator[Path]:
    """Create a temporary folder that Postgres can enter, which as root runs as another user."""
    with tempfile.TemporaryDirectory(prefix="tocsin-example-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
