"""A server that answers requests of SQS by a script."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tocsin.providers.aws.settings import AwsSettings

Answer = tuple[int, bytes]
Script = Callable[[str, dict[str, Any]], Answer | None]
"""Takes an action and its fields; None closes the connection without an answer."""


class ScriptedSqs:
    """A running server, and what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.heads: list[bytes] = []
        self.url = ""

    @property
    def settings(self) -> AwsSettings:
        return AwsSettings(region="eu-west-1", access_key_id="a", secret_access_key="b", timeout=2.0)

    @property
    def queue_url(self) -> str:
        return f"{self.url}/1/queue"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                headers = dict(
                    line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line
                )
                fields = json.loads(await reader.readexactly(int(headers[b"content-length"])))
                action = _action(head)
                self.heads.append(head)
                self.asked.append((action, fields))
                answer = self.script(action, fields)
                if answer is None:
                    break
                status, body = answer
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


def _action(head: bytes) -> str:
    start = head.lower().index(b"x-amz-target:")
    return head[start : head.index(b"\r\n", start)].decode().rpartition(".")[2]


@asynccontextmanager
async def scripted_sqs(script: Script) -> AsyncIterator[ScriptedSqs]:
    """Run the server on a free port."""
    running = ScriptedSqs(script)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
