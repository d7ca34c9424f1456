"""The recipients of a notification."""

import hashlib
from typing import assert_never

import msgspec

ERASED = "erased"
"""The address of a delivery whose recipient was erased."""

_SHORT_HASH = 12


class _Tagged(msgspec.Struct, frozen=True, tag_field="recipient"):
    """A recipient whose text form is its tag and its only field."""

    def __str__(self) -> str:
        """Format the recipient for route ids."""
        (value,) = msgspec.structs.astuple(self)
        return f"{self.__struct_config__.tag}:{value}"


class UserRecipient(_Tagged, frozen=True, tag="user"):
    """A person with a user id of the application."""

    user_id: str


class EmailRecipient(_Tagged, frozen=True, tag="email"):
    """An e-mail address without a user id."""

    address: str


class ConfigRecipient(_Tagged, frozen=True, tag="config"):
    """A placeholder when the settings have no administrators for a type."""

    type: str


class TopicRecipient(_Tagged, frozen=True, tag="topic"):
    """Every device that is subscribed to a topic at the push provider."""

    topic: str


class ConditionRecipient(_Tagged, frozen=True, tag="condition"):
    """Every device whose topics at the push provider meet a condition."""

    condition: str


class ErasedRecipient(msgspec.Struct, frozen=True):
    """A person whose data was erased."""

    def __str__(self) -> str:
        """Format the recipient for route ids."""
        return ERASED


Topics = TopicRecipient | ConditionRecipient
Recipient = UserRecipient | EmailRecipient | ConfigRecipient | Topics


def address_of(recipient: Recipient) -> str | None:
    """Return the stored address of a delivery: an e-mail address, or topics in their text form."""
    match recipient:
        case EmailRecipient():
            return recipient.address
        case TopicRecipient() | ConditionRecipient():
            return str(recipient)
        case UserRecipient() | ConfigRecipient():
            return None
        case _:
            assert_never(recipient)


def topics_at(address: str | None) -> Topics | None:
    """Parse the topic or condition in an address; return None if it is an e-mail address.

    A topic has no @; a condition has a space, which an e-mail address has not.
    """
    match (address or "").partition(":"):
        case ("topic", ":", topic) if "@" not in topic:
            return TopicRecipient(topic)
        case ("condition", ":", condition) if " " in condition:
            return ConditionRecipient(condition)
        case _:
            return None


def recipient_of(user_id: str | None, address: str | None, type_name: str) -> Recipient | ErasedRecipient:
    """Return the recipient of a stored delivery."""
    if user_id is not None:
        return UserRecipient(user_id)
    if address == ERASED:
        return ErasedRecipient()
    if address is None:
        return ConfigRecipient(type_name)
    return topics_at(address) or EmailRecipient(address)


def logged_route_id(channel: str, recipient: Recipient | ErasedRecipient) -> str:
    """Return the route id for log lines: the hash of an e-mail address instead of the address."""
    if isinstance(recipient, EmailRecipient):
        digest = hashlib.sha256(recipient.address.encode(errors="replace")).hexdigest()
        recipient = EmailRecipient(f"sha256-{digest[:_SHORT_HASH]}")
    return route_id(channel, recipient)


def route_id(channel: str, recipient: Recipient | ErasedRecipient | str) -> str:
    """Return the route id of a delivery: `<channel>:<recipient>`."""
    return f"{channel}:{recipient}"
