"""Whom a notification is for."""

import msgspec


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


Recipient = UserRecipient | EmailRecipient | ConfigRecipient


def route_id(channel: str, recipient: Recipient | str) -> str:
    """Name the slot of a delivery in outside contracts."""
    return f"{channel}:{recipient}"
