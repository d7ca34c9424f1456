"""A topic of SNS that speaks its protocol, recognises duplicates as SNS does, and fails as a test asks it to.

`moto` hands a FIFO topic's messages to a FIFO queue, which recognises duplicates; but neither refuses an
entry or a call, nor loses an answer.
"""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from tests.engine.stage import MovableClock

DEDUPLICATION_SECONDS = 300.0
_FIELD = re.compile(r"PublishBatchRequestEntries\.member\.(\d+)\.(.+)")
_ATTRIBUTE = re.compile(r"MessageAttributes\.entry\.(\d+)\.(Name|Value\.DataType|Value\.StringValue)")


class Published(NamedTuple):
    """One message that the topic took."""

    group: str
    deduplication_id: str
    envelope: dict[str, Any]
    attributes: Mapping[str, str]

    @property
    def event(self) -> str:
        event: str = self.envelope["event_id"]
        return event


class StandInTopic:
    """The topic: `messages` are those it took, without the duplicates that it recognised."""

    def __init__(self, clock: MovableClock) -> None:
        self.url = ""
        self.messages: list[Published] = []
        self.duplicates = 0
        self.calls: list[list[str]] = []
        self.refuse: Callable[[str, dict[str, Any]], str | None] = lambda _group, _envelope: None
        self.refuse_call: Callable[[list[dict[str, Any]]], str | None] = lambda _envelopes: None
        self.drop_connections = False
        self.lose_answers = 0
        self.requests: list[tuple[str, bytes]] = []
        self._clock = clock
        self._seen: dict[str, float] = {}

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator["StandInTopic"]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            server.close()

    def events(self, group: str) -> list[str]:
        """List the events that one group got, in order."""
        return [message.event for message in self.messages if message.group == group]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                length = int(re.split("content-length:", head, flags=re.IGNORECASE)[1].split()[0])
                body = await reader.readexactly(length)
                if self.drop_connections:
                    break
                self.requests.append((head, body))
                status, answer = self._answer(body.decode())
                if self.lose_answers:
                    self.lose_answers -= 1
                    break
                head = (
                    f"HTTP/1.1 {status} X\r\ncontent-type: text/xml\r\ncontent-length: {len(answer)}\r\n\r\n"
                )
                writer.write(head.encode() + answer.encode())
        writer.close()

    def _answer(self, body: str) -> tuple[int, str]:
        entries = _entries(body)
        envelopes = [msgspec.json.decode(entry["Message"]) for entry in entries]
        if refusal := self.refuse_call(envelopes):
            kind, _, text = refusal.partition(": ")
            error = f"<Error><Code>{kind}</Code><Message>{text}</Message></Error>"
            status = 500 if kind == "InternalFailure" else 400
            return status, f"<ErrorResponse>{error}</ErrorResponse>"
        self.calls.append([entry["MessageGroupId"] for entry in entries if "MessageGroupId" in entry])
        assert len(entries) <= 10
        assert len({entry["Id"] for entry in entries}) == len(entries)
        taken, failed = "", ""
        for entry, envelope in zip(entries, envelopes, strict=True):
            group = entry.get("MessageGroupId", "")
            if code := self.refuse(group, envelope):
                failed += f"<member><Id>{entry['Id']}</Id><Code>{code}</Code></member>"
                continue
            taken += f"<member><Id>{entry['Id']}</Id><MessageId>m</MessageId></member>"
            self._take(
                Published(group, entry.get("MessageDeduplicationId", ""), envelope, _attributes(entry))
            )
        result = f"<Successful>{taken}</Successful><Failed>{failed}</Failed>"
        return (
            200,
            f"<PublishBatchResponse><PublishBatchResult>{result}</PublishBatchResult></PublishBatchResponse>",
        )

    def _take(self, message: Published) -> None:
        now = self._clock().timestamp()
        if id_ := message.deduplication_id:
            if now - self._seen.get(id_, float("-inf")) < DEDUPLICATION_SECONDS:
                self.duplicates += 1
                return
            self._seen[id_] = now
        self.messages.append(message)


def twice(messages: list[Published]) -> list[tuple[str, str]]:
    """List what reached a recipient more than once."""
    counts = Counter((message.event, message.group) for message in messages)
    return [key for key, count in counts.items() if count > 1]


def _entries(body: str) -> list[dict[str, str]]:
    entries: dict[int, dict[str, str]] = {}
    for name, value in parse_qsl(body, strict_parsing=True):
        if found := _FIELD.fullmatch(name):
            entries.setdefault(int(found[1]), {})[found[2]] = value
    return [entries[number] for number in sorted(entries)]


def _attributes(entry: Mapping[str, str]) -> dict[str, str]:
    parts: dict[str, dict[str, str]] = {}
    for name, value in entry.items():
        if found := _ATTRIBUTE.fullmatch(name):
            parts.setdefault(found[1], {})[found[2]] = value
    return {part["Name"]: part["Value.StringValue"] for part in parts.values()}
