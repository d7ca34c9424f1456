"""What providers that append to a Redis stream have in common."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from tocsin.domain.delivery.message import HandOff, Limits, Message
from tocsin.domain.delivery.outcome import Outcome, Rejected, Sent
from tocsin.providers.answers import Rule
from tocsin.providers.isolation import internal_error
from tocsin.providers.redis_streams.answers import classify_loss, classify_refusal
from tocsin.providers.redis_streams.commands import XAdd
from tocsin.providers.redis_streams.connection import Answer, LostError, RedisConnection
from tocsin.providers.redis_streams.settings import StreamProviderSettings

ENCODING_FAILED = "payload_encoding_failed"
PAYLOAD_BYTES = 262_144
LONGEST_TTL = 2_419_200
SLICE_SECONDS = 0.01


class EncodingError(Exception):
    """A payload does not fit its entry; the text quotes none of it."""


class StreamProvider(ABC):
    """Appends a batch of entries in one pipeline over one connection, each with an outcome of its own.

    `concurrency` is how many messages may be in flight at once: one batch is, others wait for the connection.
    """

    name: ClassVar[str]
    limits: ClassVar[Limits] = Limits(payload_bytes=PAYLOAD_BYTES, batch=200, ttl_seconds=LONGEST_TTL)
    failed: ClassVar[str]
    rules: ClassVar[Sequence[Rule]]
    """The code of an entry that was not appended, and the table of answers."""

    def __init__(self, settings: StreamProviderSettings, command: XAdd) -> None:
        settings.raise_faults()
        self._command = command
        self.concurrency = settings.max_concurrency
        self._connection = RedisConnection(settings)

    async def prepare(self) -> None:  # noqa: B027 - there is nothing to override
        """Do nothing: faults of the connection show at the first batch."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:  # noqa: ARG002
        """Append the entries of a batch and return the outcome of each."""
        packed = [packed async for packed in self._packed(batch)]
        commands = [each for each in packed if isinstance(each, bytes)]
        if not commands:
            return [each for each in packed if isinstance(each, Rejected)]
        outcomes = iter(await self._append(commands))
        return [next(outcomes) if isinstance(each, bytes) else each for each in packed]

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()

    @abstractmethod
    def _fields(self, message: Message, hand_off: HandOff) -> Mapping[bytes, bytes]:
        """Return the fields of an entry; raise EncodingError for a payload that does not fit."""

    async def _packed(self, batch: Sequence[Message]) -> AsyncIterator[bytes | Rejected]:
        """Pack messages in slices: a payload may take long, and other tasks have leases to renew."""
        until = time.monotonic() + SLICE_SECONDS
        for message in batch:
            yield self._pack(message)
            if time.monotonic() >= until:
                await asyncio.sleep(0)
                until = time.monotonic() + SLICE_SECONDS

    def _pack(self, message: Message) -> bytes | Rejected:
        try:
            if message.hand_off is None:
                raise EncodingError("the message has no payload to hand off")  # noqa: TRY301
            command = self._command.pack(self._fields(message, message.hand_off))
        except (EncodingError, UnicodeEncodeError) as error:
            detail = str(error) if isinstance(error, EncodingError) else "not every character is valid"
            return Rejected(ENCODING_FAILED, detail)
        except Exception as error:  # noqa: BLE001 - what one message raises must not reach the others
            return internal_error(self.name, message, error)
        if len(command) > self.limits.payload_bytes:
            return Rejected("payload_too_large", f"{len(command)} bytes; {self.limits.payload_bytes} fit")
        return command

    async def _append(self, commands: Sequence[bytes]) -> Sequence[Outcome]:
        try:
            answers = await self._connection.run(commands)
        except LostError as error:
            lost = classify_loss(error, self.failed)
            return [*map(self._outcome, error.answers), *[lost] * (len(commands) - len(error.answers))]
        return [self._outcome(answer) for answer in answers]

    def _outcome(self, answer: Answer) -> Outcome:
        if isinstance(answer, bytes):
            return Sent(answer.decode())
        return classify_refusal(answer, self.rules)


def trace_fields(hand_off: HandOff) -> Mapping[bytes, bytes]:
    """Return the ids by which a request can be followed, where they are known."""
    fields = {}
    if hand_off.request_id is not None:
        fields[b"request_id"] = hand_off.request_id.encode()
    if hand_off.trace_id is not None:
        fields[b"trace_id"] = hand_off.trace_id.encode()
    return fields
