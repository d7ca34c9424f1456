"""A peer between client and server that does to each request what its script says."""

import http.client
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

import msgspec

_AT_ONCE = struct.pack("ii", 1, 0)


class Reset(msgspec.Struct, frozen=True):
    """Cut the connection before the server hears of the request."""


class LoseAnswer(msgspec.Struct, frozen=True):
    """Let the server do it, and cut the connection before its answer."""


class Say(msgspec.Struct, frozen=True):
    """Answer without asking the server."""

    status: int
    body: bytes = b"busy"
    headers: dict[str, str] = {}


class Hang(msgspec.Struct, frozen=True):
    """Let the server do it and never answer."""


Act = Reset | LoseAnswer | Say | Hang


class Flaky(ThreadingHTTPServer):
    """Follows its script, one act a request, and passes on whatever comes after."""

    daemon_threads = True

    def __init__(self, server_url: str, *acts: Act) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_url = server_url
        self.acts = deque(acts)
        self.keys: list[str] = []
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that were cut on purpose."""

    @classmethod
    @contextmanager
    def before(cls, server_url: str, *acts: Act) -> Iterator[Self]:
        with cls(server_url, *acts) as peer:
            thread = threading.Thread(target=peer.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield peer
            finally:
                peer.ended.set()
                peer.shutdown()
                thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Flaky

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fields = msgspec.json.decode(body) if body else {}
        for each in fields.get("notifications", [fields]):
            self.server.keys.append(each.get("idempotency_key", ""))
        act = self.server.acts.popleft() if self.server.acts else None
        match act:
            case Reset():
                self._cut()
            case LoseAnswer():
                self._pass_on(body)
                self._cut()
            case Say(status=status, body=said, headers=headers):
                self._answer(status, said, headers)
            case Hang():
                self._pass_on(body)
                self.server.ended.wait()
            case None:
                status, said = self._pass_on(body)
                self._answer(status, said, {})

    do_GET = do_POST = do_PUT = do_PATCH = handle_request  # noqa: N815 - the names http.server calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name http.server gives it
        """Keep the tests' output clean."""

    def _pass_on(self, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(urlsplit(self.server.server_url).netloc, timeout=20)
        headers = {"Authorization": self.headers["Authorization"], "Content-Type": "application/json"}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        said = response.read()
        connection.close()
        return response.status, said

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.connection.close()
