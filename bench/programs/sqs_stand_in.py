"""Stands in for SQS with as little of the machine as it can: hands out messages at a steady pace.

A batch for each line of its input; it is done when every message of the batch was deleted.
"""

import asyncio
import os
import sys
import time
import uuid

import msgspec
import uvloop

from bench.contract import Batch

BATCH = 10
IDLE_SECONDS = 0.02
LONGEST_POLL = 20.0

# What SNS wraps around an envelope of fisa, quotes escaped once for its JSON and once for that of SQS.
ENVELOPE = (
    '{"event_id":"%(id)s","event_type":"comment.added","org_id":"c1f3a1f2-1d7c-4b43-8b2f-27a5d0c9f0aa",'
    '"recipients":["user-%(number)d"],"title":"New comment","body":"%(body)s","icon":"comment",'
    '"severity":"info","deep_link":"fisa://work-item/%(number)d?tab=comments",'
    '"extras":{"work_item_id":"%(number)d","priority":"high"},"created_at":"2026-11-18T01:02:03Z"}'
)
WRAPPER = {
    "Type": "Notification",
    "MessageId": "%(id)s",
    "TopicArn": "arn:aws:sns:ap-southeast-1:123456789012:fisa-notify",
    "Message": ENVELOPE,
    "Timestamp": "%(at)s",
    "SignatureVersion": "1",
    "Signature": "S" * 344,
    "SigningCertURL": "https://sns.ap-southeast-1.amazonaws.com/SimpleNotificationService-0.pem",
    "UnsubscribeURL": "https://sns.ap-southeast-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn="
    + "a" * 90,
    "MessageAttributes": {"event_type": {"Type": "String", "Value": "comment.added"}},
}
MESSAGE = {
    "MessageId": "%(id)s",
    "ReceiptHandle": "%(id)s" + "R" * 160,
    "MD5OfBody": "0" * 32,
    "Body": msgspec.json.encode(WRAPPER).decode(),
    "Attributes": {"SentTimestamp": "%(ms)d", "ApproximateReceiveCount": "1"},
}
TEMPLATE = msgspec.json.encode(MESSAGE).decode()


class _Entry(msgspec.Struct):
    id: str = msgspec.field(name="Id")
    receipt: str = msgspec.field(name="ReceiptHandle")


class _Entries(msgspec.Struct):
    entries: list[_Entry] = msgspec.field(name="Entries")


_entries = msgspec.json.Decoder(_Entries)
_batches = msgspec.json.Decoder(Batch)


class StandIn:
    """A queue that fills at a pace."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._began = 0.0
        self._count = 0
        self._handed_out = 0
        self._undeleted: set[str] = set()
        self.done = asyncio.Event()

    def fill(self, count: int) -> None:
        self._began, self._count, self._handed_out = time.perf_counter(), count, 0
        self.done.clear()

    def receive(self) -> bytes:
        """Write the answer to a receive: ten messages, fewer at the end, none while there is no ten."""
        due = min(self._count, int((time.perf_counter() - self._began) * self._rate))
        wanted = min(BATCH, self._count - self._handed_out)
        if not wanted or due - self._handed_out < wanted:
            return b""
        now = time.time()
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(now))
        messages = []
        for number in range(self._handed_out, self._handed_out + wanted):
            identity = str(uuid.UUID(int=number << 64 | time.time_ns()))
            fields = {
                "id": identity,
                "number": number,
                "at": at,
                "ms": now * 1_000,
                "body": os.urandom(60).hex(),
            }
            messages.append(TEMPLATE % fields)
            self._undeleted.add(identity)
        self._handed_out += wanted
        return b'{"Messages":[' + ",".join(messages).encode() + b"]}"

    def delete(self, body: bytes) -> bytes:
        entries = _entries.decode(body).entries
        for entry in entries:
            self._undeleted.discard(entry.receipt[:36])
        if self._handed_out == self._count and not self._undeleted:
            self.done.set()
        successful = ",".join(f'{{"Id":"{entry.id}"}}' for entry in entries)
        return f'{{"Successful":[{successful}],"Failed":[]}}'.encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(_header(head, b"content-length")))
                answer = await self._answer(_header(head, b"x-amz-target"), body)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, target: bytes, body: bytes) -> bytes:
        if target.endswith(b".DeleteMessageBatch"):
            return self.delete(body)
        if not target.endswith(b".ReceiveMessage"):
            return b"{}"
        until = time.perf_counter() + LONGEST_POLL
        while time.perf_counter() < until:
            if answer := self.receive():
                return answer
            await asyncio.sleep(IDLE_SECONDS)
        return b"{}"


def _header(head: bytes, name: bytes) -> bytes:
    start = head.lower().index(b"\r\n" + name + b":") + len(name) + 3
    return head[start : head.index(b"\r\n", start)].strip()


async def main() -> None:
    """Serve, and fill the queue by each line of the input."""
    stand_in = StandIn(float(os.environ["BENCH_RATE"]))
    await asyncio.start_server(stand_in.serve, "127.0.0.1", int(os.environ["BENCH_PORT"]))
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ok", flush=True)
    while line := await lines.readline():
        stand_in.fill(_batches.decode(line).count)
        await stand_in.done.wait()
        print("ok", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
