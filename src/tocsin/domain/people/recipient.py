"""The recipients of a notification."""

from typing import assert_never

import msgspec

_TOPIC = "topic:"
_CONDITION = "condition:"


class UserRecipient(msgspec.Struct, frozen=True):
    """A person with a user id of the application."""

    user_id: str

    def __str__(self) -> str:
        """Format the recipient for route ids."""
        return f"user:{self.user_id}"


class EmailRecipient(msgspec.Struct, frozen=True):
    """An e-mail address without a user id."""

    address: str

    def __str__(self) -> str:
        """Format the recipient for route ids."""
        return f"email:{self.address}"


class ConfigRecipient(msgspec.Struct, frozen=True):
    """A placeholder when the settings have no administrators for a type."""

    type: str

    def __str__(self) -> str:
        """Format the recipient for route ids."""
        return f"config:{self.type}"


class TopicRecipient(msgspec.Struct, frozen=True):
    """Every device that is subscribed to a topic at the push provider."""

    topic: str

    def __str__(self) -> str:
        """Format the recipient for route ids."""
        return f"{_TOPIC}{self.topic}"


class ConditionRecipient(msgspec.Struct, frozen=True):
    """Every device whose topics at the push provider meet a condition."""

    condition: str

    def __str__(self) -> str:
        """Format the recipient for route ids."""
        return f"{_CONDITION}{self.condition}"


Broadcast = TopicRecipient | ConditionRecipient
Recipient = UserRecipient | EmailRecipient | ConfigRecipient | Broadcast


def address_of(recipient: Recipient) -> str | None:
    """Return the stored address of a delivery: an e-mail address, or a broadcast in its text form."""
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
    """Parse the broadcast in an address; return None if it is an e-mail address.

    A topic has no @; a condition has a space, which an e-mail address has not.
    """
    if address is None:
        return None
    if address.startswith(_TOPIC) and "@" not in address:
        return TopicRecipient(address.removeprefix(_TOPIC))
    if address.startswith(_CONDITION) and " " in address:
        return ConditionRecipient(address.removeprefix(_CONDITION))
    return None


def recipient_of(user_id: str | None, address: str | None, type_name: str) -> Recipient:
    """Return the recipient of a stored delivery."""
    if user_id is not None:
        return UserRecipient(user_id)
    if address is None:
        return ConfigRecipient(type_name)
    return broadcast_at(address) or EmailRecipient(address)


def route_id(channel: str, recipient: Recipient | str) -> str:
    """Return the route id of a delivery: `<channel>:<recipient>`."""
    return f"{channel}:{recipient}"
