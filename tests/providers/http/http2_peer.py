"""An HTTP/2 peer that can be rude on the level of HTTP/2: GOAWAY, REFUSED_STREAM, few streams."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from hyperframe.frame import GoAwayFrame

from tests.providers.wire import LOOPBACK

_CHUNK = 65_536


class CannedAnswer(NamedTuple):
    """A whole HTTP answer."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Http2Peer:
    """Answers every request over HTTP/2 and TLS in the same way, and can be rude on its level.

    `certificates` is the folder of a sandbox, whose authority the provider trusts.
    """

    def __init__(
        self, certificates: Path, answer: Callable[[bytes], CannedAnswer], *, streams: int = 100
    ) -> None:
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        self._tls.set_alpn_protocols(["h2"])
        self.answer = answer
        self.streams = streams
        self._server: asyncio.Server | None = None
        self._open: set[_Http2Connection] = set()
        self._goodbye: _Goodbye | None = None
        self._refusals = 0
        self.connections = 0
        """How many connections were made in all."""
        self.heads: list[dict[str, str]] = []
        """The header fields of each request."""
        self.answered = 0
        """How many requests got their answer."""
        self.most_open = 0
        """How many requests of one connection were under way at once at most."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0, ssl=self._tls)
        self.url = f"https://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._open):
            connection.abort()
        await asyncio.gather(*(connection.ended.wait() for connection in list(self._open)))

    def goaway_after(self, requests: int, *, finish: bool) -> None:
        """Keep the next requests waiting; when so many wait, say GOAWAY, then answer them or just leave."""
        self._goodbye = _Goodbye(requests, finish=finish)

    def refuse(self, requests: int) -> None:
        """Refuse the next requests by REFUSED_STREAM."""
        self._refusals = requests

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = _Http2Connection(self, writer)
        self._open.add(connection)
        try:
            await connection.run(reader)
        finally:
            self._open.discard(connection)

    def decide(self, connection: "_Http2Connection", stream: int) -> None:
        """Meet one whole request."""
        if self._refusals:
            self._refusals -= 1
            connection.refuse(stream)
        elif self._goodbye is None:
            connection.give_answer(stream)
        else:
            self._goodbye.requests -= 1
            connection.waiting.append(stream)
            if not self._goodbye.requests:
                finish, self._goodbye = self._goodbye.finish, None
                for each in list(self._open):
                    each.say_goodbye(finish=finish)


class _Goodbye:
    def __init__(self, requests: int, *, finish: bool) -> None:
        self.requests = requests
        self.finish = finish


class _Http2Connection:
    def __init__(self, peer: Http2Peer, writer: asyncio.StreamWriter) -> None:
        self._peer = peer
        self._writer = writer
        self._http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self._bodies: dict[int, bytes] = {}
        self._left = False
        self.waiting: list[int] = []
        self.ended = asyncio.Event()

    async def run(self, reader: asyncio.StreamReader) -> None:
        self._http2.initiate_connection()
        self._http2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self._peer.streams})
        self._flush()
        try:
            while chunk := await reader.read(_CHUNK):
                for event in self._http2.receive_data(chunk):
                    self._meet(event)
                self._flush()
        except (OSError, h2.exceptions.ProtocolError):
            self.abort()
        finally:
            self._writer.close()
            self.ended.set()

    def abort(self) -> None:
        self._writer.transport.abort()

    def give_answer(self, stream: int) -> None:
        answer = self._peer.answer(self._bodies.pop(stream))
        headers = [(":status", str(answer.status)), *answer.headers]
        self._http2.send_headers(stream, headers, end_stream=not answer.body)
        size = self._http2.max_outbound_frame_size
        for start in range(0, len(answer.body), size):
            part = answer.body[start : start + size]
            self._http2.send_data(stream, part, end_stream=start + size >= len(answer.body))
        self._peer.answered += 1

    def refuse(self, stream: int) -> None:
        del self._bodies[stream]
        self._http2.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)

    def say_goodbye(self, *, finish: bool) -> None:
        """Leave: what was begun is finished or not, what comes later is not looked at."""
        self._left = True
        self._flush()
        # h2 would send nothing more after a GOAWAY of its own, and the answers have to follow.
        last = max(self.waiting, default=0)
        self._writer.write(GoAwayFrame(0, last_stream_id=last).serialize())
        for stream in self.waiting if finish else ():
            self.give_answer(stream)
        self._flush()
        if not finish:
            self._writer.close()

    def _meet(self, event: h2.events.Event) -> None:
        if self._left:
            return
        match event:
            case h2.events.RequestReceived(stream_id=int(stream)):
                self._bodies[stream] = b""
                self._peer.heads.append(
                    {name.decode(): value.decode() for name, value in event.headers or ()}
                )
                self._peer.most_open = max(self._peer.most_open, len(self._bodies))
            case h2.events.DataReceived(stream_id=int(stream), data=bytes(data)):
                self._bodies[stream] += data
                self._http2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
            case h2.events.StreamEnded(stream_id=int(stream)):
                self._peer.decide(self, stream)
            case h2.events.StreamReset(stream_id=int(stream)):
                self._bodies.pop(stream, None)
            case _:
                pass

    def _flush(self) -> None:
        if pending := self._http2.data_to_send():
            self._writer.write(pending)
