"""Connections of the sandbox without a socket: random frames, and a client that reads nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hpack
import pytest
from hpack import NeverIndexedHeaderTuple

from tests.providers.http.h2.fuzz import Fuzzer
from tests.providers.http.h2.memory import Wire
from tests.sandbox.http.raw_client import request_fields
from tests.waiting import until
from tocsin.http2 import keep_alive
from tocsin.http2.frames import PREFACE, FrameType, frame, settings_frame
from tocsin.sandbox import SandboxSettings
from tocsin.sandbox.app import Application
from tocsin.sandbox.control import Control
from tocsin.sandbox.http.bodies import MOST_PARTIAL_BYTES
from tocsin.sandbox.http.http1_connection import Http1Connection
from tocsin.sandbox.http.http2_connection import Http2Connection
from tocsin.sandbox.http.service import Service
from tocsin.sandbox.page import page_file
from tocsin.sandbox.phones import Phones
from tocsin.sandbox.stand_in import SandboxContext
from tocsin.sandbox.webhook.service import WebhookStandIn

EVENT = (("webhook-id", "m1"), ("webhook-timestamp", "1"), ("webhook-signature", "v1,x"))
REQUESTS: tuple[tuple[tuple[str, str], ...], ...] = (
    (*request_fields("POST", "/webhook/ada"), *EVENT),
    (*request_fields("POST", "/webhook/ada"), *EVENT, ("content-length", "30")),
    (*request_fields("GET", "/"), ("user-agent", "fuzz")),
    (*request_fields("HEAD", "/nothing"), ("x", "y" * 300)),
    (("checksum", "0"),),
)


def _blocks() -> Iterator[bytes]:
    for fields in REQUESTS:
        # One that leaves the table as it is, and one that fills it and so changes what others mean.
        yield hpack.Encoder().encode([NeverIndexedHeaderTuple(*each) for each in fields])
        yield hpack.Encoder().encode(fields)


class ServerWire(Wire):
    """A transport that says where it is and whether it is read from."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[bool] = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 80) if name == "sockname" else default

    def pause_reading(self) -> None:
        self.pauses.append(True)

    def resume_reading(self) -> None:
        self.pauses.append(False)


class Peer:
    """A connection of the sandbox, and the service behind it."""

    def __init__(self, folder: Path) -> None:
        settings = SandboxSettings()
        webhook = WebhookStandIn(SandboxContext(settings, folder, Phones(settings)))
        stand_ins: Any = {webhook.name: webhook}
        nobody: Any = None
        control = Control(
            phones=Phones(settings),
            stand_ins=stand_ins,
            fcm=nobody,
            expo=nobody,
            ca_pem=b"",
            subscribe=nobody,
            reset=nobody,
        )
        self.counters = webhook.counters
        self.service = Service(Application([webhook], nobody, control), "http", 20)
        self.wire = ServerWire()
        self.connection = Http2Connection(self.service)
        self.connection.connection_made(self.wire)
        self.connection.data_received(PREFACE + settings_frame({}))

    def check_nothing_is_left(self) -> None:
        assert self.counters.stats().in_flight == 0
        assert self.service.memory.left == MOST_PARTIAL_BYTES
        assert not self.service.connections


class ServerFuzzer(Fuzzer):
    """Sends frames of a client."""

    blocks = tuple(_blocks())

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        self._folder = folder
        self.requests = 0

    async def _talk(self, count: int) -> None:
        peer = Peer(self._folder)
        self._next, self._begun = 1, [1]
        while not peer.wire.closed and self.frames < count:
            sent = b"".join(self._frame() for _ in range(self._chance.randint(1, 20)))
            cut = self._chance.randrange(len(sent) + 1)
            for part in (sent[:cut], sent[cut:]):
                peer.connection.data_received(part)
                await asyncio.sleep(0)
        peer.connection.connection_lost(None)
        peer.check_nothing_is_left()
        self.ends.update(peer.counters.stats().answers)

    def _stream(self, kind: int) -> int:
        if kind != FrameType.HEADERS or self._chance.random() < 0.2:
            return self._chance.choice(self._begun[-5:])
        self._begun.append(self._next)
        self._next += 2
        return self._next - 2


@pytest.mark.parametrize("seed", range(5))
async def test_random_frames_raise_nothing_that_is_not_caught(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "MOST_IDLE_FRAMES", 10_000)
    fuzzer = ServerFuzzer(seed, tmp_path)

    await fuzzer.run(4_000)

    assert fuzzer.ends["HTTP_400"] > 20


async def test_nothing_is_read_from_a_client_that_does_not_read(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    block = hpack.Encoder().encode(REQUESTS[2])
    peer.connection.pause_writing()
    assert peer.wire.pauses == [True]
    peer.wire.take()

    # What was on its way makes as many answers as there are streams, however often it comes.
    for number in range(1, 2_000, 2):
        peer.connection.data_received(frame(FrameType.HEADERS, 5, number, b"\x20" + block))
        await asyncio.sleep(0)
    assert peer.wire.take() == b""
    peer.connection.data_received(frame(FrameType.WINDOW_UPDATE, 0, 0, b"\x3f\xff\x00\x00"))
    peer.connection.resume_writing()

    assert peer.wire.pauses == [True, False]
    body = page_file().body
    written = peer.wire.take()
    assert written.count(body[-200:]) <= 20
    assert written.count(b"\x00\x00\x04\x03\x00") >= 980
    peer.connection.connection_lost(None)
    peer.check_nothing_is_left()


async def test_requests_of_http_1_are_not_read_faster_than_they_are_answered(tmp_path: Path) -> None:
    service, wire = Peer(tmp_path).service, ServerWire()
    connection = Http1Connection(service)
    connection.connection_made(wire)

    connection.data_received(b"GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n" * 3_000)

    assert wire.pauses == [True]
    await until(lambda: wire.written.count(b"HTTP/1.1 404 ") == 3_000)
    assert wire.pauses == [True, False]
