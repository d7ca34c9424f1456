"""Virtual phones and what they received."""

import asyncio
import datetime as dt
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

import msgspec

TargetKind = Literal["token", "fid", "topic", "condition"]


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it arrived, numbered from 1 in order of arrival."""

    number: int
    at: dt.datetime
    provider: str
    target_kind: TargetKind
    target: str
    message_id: str
    delivery_id: str | None
    message: dict[str, Any]


class Phone(msgspec.Struct, kw_only=True):
    """A device known by its token, and its last messages."""

    token: str
    received: int = 0
    messages: deque[Received]


class Phones:
    """Every virtual phone and a bounded log of all messages.

    The longest-known phones are forgotten past `phones_kept`; tokens marked unregistered are not.
    """

    def __init__(
        self,
        *,
        unknown_tokens: Literal["live", "unregistered"],
        record: Literal["messages", "counts"],
        messages_per_phone: int,
        messages_kept: int,
        phones_kept: int,
    ) -> None:
        self._unknown_are_live = unknown_tokens == "live"
        self._keeps_messages = record == "messages"
        self._messages_per_phone = messages_per_phone
        self._phones_kept = phones_kept
        self._phones: dict[str, Phone] = {}
        self._unregistered: set[str] = set()
        self._log: deque[Received] = deque(maxlen=messages_kept)
        self._count = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def count(self) -> int:
        """How many messages have arrived in all."""
        return self._count

    def __len__(self) -> int:
        return len(self._phones)

    def register(self, token: str) -> Phone:
        """Make a token live."""
        self._unregistered.discard(token)
        return self._phones.get(token) or self._add(token)

    def unregister(self, token: str) -> None:
        """Make a token refuse every message from now on, as after the app was removed."""
        self._unregistered.add(token)

    def is_live(self, token: str) -> bool:
        """Tell whether a message to this token would arrive."""
        if token in self._unregistered:
            return False
        return self._unknown_are_live or token in self._phones

    def find(self, token: str) -> Phone | None:
        """Look a phone up by its token."""
        return self._phones.get(token)

    def page(self, *, offset: int, limit: int) -> Iterator[Phone]:
        """List phones in the order they became known."""
        return islice(self._phones.values(), offset, offset + limit)

    def messages(self, *, after: int, limit: int) -> Iterator[Received]:
        """List the messages still in the log that came after a number."""
        oldest = self._count - len(self._log)
        start = max(after - oldest, 0)
        return islice(self._log, start, start + limit)

    def receive(
        self,
        *,
        provider: str,
        target_kind: TargetKind,
        target: str,
        message_id: str,
        delivery_id: str | None,
        message: dict[str, Any],
    ) -> None:
        """Let a message arrive."""
        self._count += 1
        received = None
        if self._keeps_messages:
            received = Received(
                number=self._count,
                at=dt.datetime.now(dt.UTC),
                provider=provider,
                target_kind=target_kind,
                target=target,
                message_id=message_id,
                delivery_id=delivery_id,
                message=message,
            )
            self._log.append(received)
        if target_kind in {"token", "fid"}:
            phone = self._phones.get(target) or self._add(target)
            phone.received += 1
            if received:
                phone.messages.append(received)
        if self._waiting:
            self._wake()

    async def arrived(self, count: int) -> None:
        """Wait until so many messages have arrived in all."""
        if self._count >= count:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((count, future))
        await future

    def clear(self) -> None:
        """Forget every phone and message, and start counting anew."""
        self._phones.clear()
        self._unregistered.clear()
        self._log.clear()
        self._count = 0

    def _add(self, token: str) -> Phone:
        if len(self._phones) >= self._phones_kept:
            del self._phones[next(iter(self._phones))]
        kept = self._messages_per_phone if self._keeps_messages else 0
        phone = Phone(token=token, messages=deque(maxlen=kept))
        self._phones[token] = phone
        return phone

    def _wake(self) -> None:
        still_waiting = []
        for count, future in self._waiting:
            if future.done():
                continue
            if self._count >= count:
                future.set_result(None)
            else:
                still_waiting.append((count, future))
        self._waiting = still_waiting
