"""Frames at random for the client's parser: `python -m tests.providers.http.h2.fuzz --frames 1000000`.

Most frames are nearly right, so that they get past the first checks. Whatever comes, the connection must
either go on or end with an error code of its own; any other exception fails the run, which prints the seed.
"""

import argparse
import asyncio
import random
import secrets
import time
from collections import Counter
from struct import pack

import hpack
from hpack import NeverIndexedHeaderTuple

from tests.providers.http.h2.memory import Owner
from tocsin.http2 import keep_alive
from tocsin.http2.frames import FrameType, Setting, frame, settings_frame
from tocsin.providers.http.h2.errors import RequestFailedError
from tocsin.providers.http.h2.exchange import Exchange

MOST_AT_ONCE = 12
BODIES = (b"", b"12345", b"x" * 900, b"y" * 40_000)
FIELDS: tuple[tuple[tuple[str, str], ...], ...] = (
    ((":status", "200"),),
    ((":status", "200"), ("content-length", "30")),
    ((":status", "200"), ("apns-id", "0190f3b2-0000-7000-8000-000000000001"), ("date", "today")),
    ((":status", "103"), ("link", "</a>")),
    ((":status", "404"), ("a", "b")),
    (("grpc-status", "0"),),
)
BLOCKS = tuple(
    hpack.Encoder().encode([NeverIndexedHeaderTuple(*each) for each in fields]) for fields in FIELDS
)
# DATA and HEADERS make most of it; what ends a connection at once is rare.
WEIGHTS = (30, 30, 2, 2, 2, 0.05, 2, 0.1, 8, 0.1, 2)


class Fuzzer:
    """Sends frames to connections, one after another as each ends."""

    blocks = BLOCKS

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - the same frames for the same seed
        self.ends: Counter[str] = Counter()
        self.frames = 0

    async def run(self, count: int) -> None:
        while self.frames < count:
            await self._talk(count)

    async def _talk(self, count: int) -> None:
        owner = self._owner = Owner()
        begins_well = self._chance.random() < 0.98
        owner.connection.data_received(settings_frame({}) if begins_well else self._frame())
        asked: list[Exchange] = []
        while not owner.closed and self.frames < count:
            room = min(MOST_AT_ONCE, owner.connection.limit) - len(owner.connection.streams)
            asked += [owner.post(self._chance.choice(BODIES)) for _ in range(room)]
            sent = b"".join(self._frame() for _ in range(self._chance.randint(1, 20)))
            cut = self._chance.randrange(len(sent) + 1)
            owner.connection.data_received(sent[:cut])
            await asyncio.sleep(0)
            if asked and self._chance.random() < 0.1:
                self._chance.choice(asked).cancel()
            if not owner.closed:
                owner.connection.data_received(sent[cut:])
                owner.connection.tick(time.monotonic())
            owner.wire.take()
            asked = [exchange for exchange in asked if not self._is_over(exchange)]
        if not owner.closed:
            owner.connection.connection_lost(None)
        self.ends.update(map(self._end_of, asked))
        assert all(exchange.done() for exchange in asked)

    def _is_over(self, exchange: Exchange) -> bool:
        if exchange.done():
            self.ends[self._end_of(exchange)] += 1
        return exchange.done()

    def _end_of(self, exchange: Exchange) -> str:
        if exchange.cancelled():
            return "cancelled"
        error = exchange.exception()
        if error is None:
            return "answered"
        assert isinstance(error, RequestFailedError)
        return str(error).partition(":")[0]

    def _stream(self, kind: int) -> int:  # noqa: ARG002 - a server's fuzz goes by it
        """Return a stream that a frame may be for."""
        return self._chance.choice([*self._owner.connection.streams] or [1])

    def _frame(self) -> bytes:
        self.frames += 1
        chance = self._chance
        if chance.random() < 0.002:
            return chance.randbytes(chance.randint(1, 40))
        kind: int = chance.choices([*FrameType, 0xFE], weights=WEIGHTS, k=1)[0]
        if kind in {FrameType.SETTINGS, FrameType.PING, FrameType.GOAWAY}:
            stream_id = 0
        else:
            stream_id = self._stream(kind)
        if chance.random() < 0.005:
            stream_id = chance.choice((0, 1, 2, 99, chance.getrandbits(31)))
        flags = chance.choice((4, 5) if kind == FrameType.HEADERS else (0, 0, 0, 1))
        if chance.random() < 0.05:
            flags = chance.choice((0, 1, 4, 8, 0x20, 0xC, chance.getrandbits(8)))
        made = frame(kind, flags, stream_id, self._payload(kind))
        if kind == FrameType.HEADERS and not flags & 4:
            made += frame(FrameType.CONTINUATION, chance.choice((0, 4, 4, 4)), stream_id, self._payload(kind))
        return made

    def _payload(self, kind: int) -> bytes:
        chance = self._chance
        if chance.random() < 0.005:
            return chance.randbytes(chance.choice((0, 1, 4, 5, 8, 30)))
        match kind:
            case FrameType.HEADERS | FrameType.CONTINUATION:
                block = bytearray(chance.choice(self.blocks))
                if chance.random() < 0.02:
                    block[chance.randrange(len(block))] = chance.getrandbits(8)
                return bytes(block)
            case FrameType.DATA:
                return chance.randbytes(chance.choice((0, 1, 30, 400)))
            case FrameType.SETTINGS:
                name = chance.choice((*Setting, 0x99))
                values = (0, 5, 100, 20_000, 70_000)
                return pack(
                    ">HL", name, chance.choice(values) if chance.random() < 0.95 else chance.getrandbits(32)
                )
            case FrameType.RST_STREAM | FrameType.WINDOW_UPDATE:
                return pack(">L", chance.choice((0, 1, 7, 8, 11, 1_000, 50_000)))
            case FrameType.GOAWAY:
                return pack(">LL", chance.choice((0, 3, 2**31 - 1)), chance.randrange(16))
            case FrameType.PRIORITY:
                return chance.randbytes(5)
            case _:
                return chance.randbytes(8)


def main() -> None:
    """Fuzz, and print how requests ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    given = parser.parse_args()
    print(f"seed {given.seed}")  # noqa: T201 - a command
    # The floods that a fuzz is full of are another test's subject.
    keep_alive.MOST_IDLE_FRAMES = given.frames
    fuzzer = Fuzzer(given.seed)
    began = time.monotonic()
    asyncio.run(fuzzer.run(given.frames))
    print(f"{fuzzer.frames:,} frames in {time.monotonic() - began:.0f} s, no uncaught exception")  # noqa: T201
    for end, count in fuzzer.ends.most_common():
        print(f"{count:>10,}  {end}")  # noqa: T201


if __name__ == "__main__":
    main()
