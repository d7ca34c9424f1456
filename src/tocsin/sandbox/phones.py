"""Virtual phones and what they received."""

import datetime as dt
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

import msgspec

from tocsin.sandbox.settings import SandboxSettings

TargetKind = Literal["token", "fid", "topic", "condition"]
DEVICE_TARGETS: frozenset[TargetKind] = frozenset({"token", "fid"})


class Push(msgspec.Struct, frozen=True, kw_only=True):
    """One valid message to a target."""

    target_kind: TargetKind = "token"
    target: str
    message_id: str
    delivery_id: str | None = None
    message: dict[str, Any]


class Received(Push, frozen=True, kw_only=True):
    """One message as it arrived, numbered from 1 in order of arrival."""

    number: int
    at: dt.datetime
    provider: str


class VirtualPhone(msgspec.Struct, kw_only=True):
    """A device with its token and its last messages."""

    token: str
    received: int = 0
    messages: deque[Received]


_NO_MESSAGES: deque[Received] = deque(maxlen=0)
"""The messages of every phone when they are only counted: a deque is larger than all the rest of a phone."""


class Phones:
    """Every virtual phone and a bounded log of all messages.

    Past `phones_kept` the oldest phones are forgotten; tokens marked as unregistered are not.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self.keeps_messages = settings.record == "messages"
        """Whether what arrives is stored, and not only counted."""
        self._phones: dict[str, VirtualPhone] = {}
        self._unregistered: set[str] = set()
        self._log: deque[Received] = deque(maxlen=settings.messages_kept)
        self.count = 0
        """How many messages have arrived in all."""

    def __len__(self) -> int:
        return len(self._phones)

    def register(self, token: str) -> VirtualPhone:
        """Register a token, also one that was unregistered."""
        self._unregistered.discard(token)
        return self._phones.get(token) or self._add(token)

    def unregister(self, token: str) -> None:
        """Refuse every message to a token from now on, as after the app was removed."""
        self._unregistered.add(token)

    def is_registered(self, token: str) -> bool:
        """Return whether a message to this token would arrive."""
        if token in self._unregistered:
            return False
        return self._settings.unknown_tokens == "live" or token in self._phones

    def find(self, token: str) -> VirtualPhone | None:
        """Return the phone with this token."""
        return self._phones.get(token)

    def page(self, *, offset: int, limit: int) -> Iterator[VirtualPhone]:
        """List phones, the oldest first."""
        return islice(self._phones.values(), offset, offset + limit)

    def messages(self, *, after: int, limit: int) -> Iterator[Received]:
        """List the messages still in the log with a number above `after`."""
        oldest = self.count - len(self._log)
        start = max(after - oldest, 0)
        return islice(self._log, start, start + limit)

    def receive(self, provider: str, push: Push) -> None:
        """Store a message that arrives now."""
        self.count += 1
        received = None
        if self.keeps_messages:
            fields, now = msgspec.structs.asdict(push), dt.datetime.now(dt.UTC)
            received = Received(number=self.count, at=now, provider=provider, **fields)
            self._log.append(received)
        if push.target_kind in DEVICE_TARGETS:
            phone = self._phones.get(push.target) or self._add(push.target)
            phone.received += 1
            if received:
                phone.messages.append(received)

    def clear(self) -> None:
        """Forget every phone and message, and count from zero."""
        self._phones.clear()
        self._unregistered.clear()
        self._log.clear()
        self.count = 0

    def _add(self, token: str) -> VirtualPhone:
        if len(self._phones) >= self._settings.phones_kept:
            del self._phones[next(iter(self._phones))]
        messages = deque(maxlen=self._settings.messages_per_phone) if self.keeps_messages else _NO_MESSAGES
        phone = VirtualPhone(token=token, messages=messages)
        self._phones[token] = phone
        return phone
