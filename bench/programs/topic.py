"""A topic of SNS that takes everything at once: it parses as little of a call as its answer needs.

A GET is answered with how many messages came, and how many of these were different ones.
"""

import asyncio
import os
import re
from typing import cast

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ID = re.compile(rb"MessageDeduplicationId=([^&]*)")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/xml\r\ncontent-length: %d\r\n\r\n%b"
_ANSWER = (
    b"<PublishBatchResponse><PublishBatchResult><Successful>%b</Successful><Failed/>"
    b"</PublishBatchResult></PublishBatchResponse>"
)
_MEMBER = b"<member><Id>%d</Id><MessageId>0190b5d2-7c4e-7a11-9c0e-3f6a5b2d1e40</MessageId></member>"
_ANSWERS = [_ANSWER % b"".join(_MEMBER % id_ for id_ in range(count)) for count in range(11)]


class Topic:
    """What all connections count together."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.taken = 0
        self.ids: set[bytes] = set()

    def answer(self, body: bytes) -> bytes:
        """Take the messages of one call."""
        if not body:
            return f"{self.taken} {len(self.ids)}".encode()
        ids = _ID.findall(body)
        self.taken += len(ids)
        self.ids.update(ids)
        return _ANSWERS[len(ids)]


class Connection(asyncio.Protocol):
    """One connection to the topic."""

    _transport: asyncio.Transport

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are no subclass.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (head := self._data.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(self._data, 0, head)
            end = head + 4 + (int(found[1]) if found else 0)
            if len(self._data) < end:
                return
            answer = self._topic.answer(self._data[head + 4 : end])
            self._data = self._data[end:]
            written = _HEAD % (len(answer), answer)
            asyncio.get_running_loop().call_later(self._topic.latency, self._transport.write, written)


async def main() -> None:
    """Serve until killed."""
    topic = Topic(float(os.environ["BENCH_LATENCY_MS"]) / 1_000)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(topic), "127.0.0.1", int(os.environ["BENCH_PORT"]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
