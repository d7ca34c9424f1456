"""Whom a notification is for."""

from typing import assert_never

import msgspec

_TOPIC = "topic:"
_CONDITION = "condition:"


class UserRecipient(msgspec.Struct, frozen=True):
    """A person known by the application's own user id."""

    user_id: str

    def __str__(self) -> str:
        """Give the recipient as outside contracts write it."""
        return f"user:{self.user_id}"


class EmailRecipient(msgspec.Struct, frozen=True):
    """A bare e-mail address."""

    address: str

    def __str__(self) -> str:
        """Give the recipient as outside contracts write it."""
        return f"email:{self.address}"


class ConfigRecipient(msgspec.Struct, frozen=True):
    """Stands where the settings should have named administrators and do not."""

    type: str

    def __str__(self) -> str:
        """Give the recipient as outside contracts write it."""
        return f"config:{self.type}"


class TopicRecipient(msgspec.Struct, frozen=True):
    """Every device that follows a topic at the push provider."""

    topic: str

    def __str__(self) -> str:
        """Give the recipient as outside contracts write it."""
        return f"{_TOPIC}{self.topic}"


class ConditionRecipient(msgspec.Struct, frozen=True):
    """Every device whose topics at the push provider meet a condition."""

    condition: str

    def __str__(self) -> str:
        """Give the recipient as outside contracts write it."""
        return f"{_CONDITION}{self.condition}"


Broadcast = TopicRecipient | ConditionRecipient
Recipient = UserRecipient | EmailRecipient | ConfigRecipient | Broadcast


def address_of(recipient: Recipient) -> str | None:
    """Give what is stored as the address of a delivery: a mail address, or a broadcast as it is written."""
    match recipient:
        case EmailRecipient():
            return recipient.address
        case TopicRecipient() | ConditionRecipient():
            return str(recipient)
        case UserRecipient() | ConfigRecipient():
            return None
        case _:
            assert_never(recipient)


def broadcast_at(address: str | None) -> Broadcast | None:
    """Read the broadcast that an address stands for; nothing if it is a mail address.

    A topic holds no @, and no mail address a space, which every condition has.
    """
    if address is None:
        return None
    if address.startswith(_TOPIC) and "@" not in address:
        return TopicRecipient(address.removeprefix(_TOPIC))
    if address.startswith(_CONDITION) and " " in address:
        return ConditionRecipient(address.removeprefix(_CONDITION))
    return None


def recipient_of(user_id: str | None, address: str | None, type_name: str) -> Recipient:
    """Tell whom a stored delivery is for; `type_name` is that of its type."""
    if user_id is not None:
        return UserRecipient(user_id)
    if address is None:
        return ConfigRecipient(type_name)
    return broadcast_at(address) or EmailRecipient(address)


def route_id(channel: str, recipient: Recipient | str) -> str:
    """Name the slot of a delivery in outside contracts."""
    return f"{channel}:{recipient}"
