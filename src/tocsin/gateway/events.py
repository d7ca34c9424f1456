"""Events for the sessions of users, whatever source they come from."""

import re
from abc import ABC, abstractmethod
from typing import Protocol

from tocsin.wire.streams.entry_ids import EntryId

_ENTRY_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_LARGEST_PART = 2**64 - 1


class SourceUnavailableError(Exception):
    """The source of events does not answer."""


class EventSource(Protocol):
    """Publishes events to the sessions of a process."""

    async def has(self, entry_id: EntryId) -> bool:
        """Return whether the source has an event that was not read here yet.

        Raise SourceUnavailableError if that cannot be found out.
        """
        ...


class ClientEvent(ABC):
    """An event for the sessions of a user, or for one of them.

    One that is not `is_known` was not read, since its user had no session: who resumes has missed it.
    """

    is_known = True

    def __init__(
        self, entry_id: EntryId, user_id: str, size: int, device_session_id: str | None = None
    ) -> None:
        self.id = entry_id
        self.user_id = user_id
        self.size = size
        self.device_session_id = device_session_id

    @property
    @abstractmethod
    def body(self) -> bytes:
        """The event as JSON in one line."""


def parse_entry_id(text: str) -> EntryId | None:
    """Parse the id of an event from outside; None if it is not one."""
    if not _ENTRY_ID.fullmatch(text):
        return None
    parsed = EntryId.parse(text)
    return parsed if max(parsed) <= _LARGEST_PART else None
