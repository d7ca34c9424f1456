"""A user service, as far as a directory asks it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from urllib.parse import unquote

import msgspec


class UserService:
    """Answers `GET /api/v1/internal/users/{user_id}`."""

    def __init__(self) -> None:
        self.people: dict[str, dict[str, object]] = {}
        self.broken: bytes | None = None
        self.answers: dict[str, tuple[bytes, bytes]] = {}
        self.fails_every = 0
        self.asked: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.seconds = 0.0
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                await asyncio.sleep(self.seconds)
                self.at_once -= 1
                status, body = self._answer(unquote(head.split()[1].decode().rpartition("/")[2]))
                length = str(len(body)).encode()
                writer.write(b"HTTP/1.1 " + status + b" x\r\ncontent-length: " + length + b"\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    def _answer(self, user_id: str) -> tuple[bytes, bytes]:
        self.asked[user_id] += 1
        if self.broken is not None:
            return self.broken, b"oops"
        if self.fails_every and self.asked.total() % self.fails_every == 0:
            return b"503", b"busy"
        if user_id in self.answers:
            return self.answers[user_id]
        if user_id in self.people:
            return b"200", msgspec.json.encode(self.people[user_id])
        return b"404", b'{"error": {"code": "subject_not_found"}}'


@contextlib.asynccontextmanager
async def running_service() -> AsyncIterator[UserService]:
    """Run a service for as long as the context is open."""
    service = UserService()
    server = await asyncio.start_server(service.answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    service.url = f"http://{host}:{port}"
    try:
        yield service
    finally:
        server.close()
