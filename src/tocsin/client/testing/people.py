"""The people of a stand-in: the directory, and the devices and choices of whoever holds a token."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from tocsin.client.answers import Device, Preferences, User
from tocsin.domain.ids import uuid7
from tocsin.domain.people.devices import short_hash, token_hash


class People:
    """Remembers what was stored; a person is known by the token that their calls are made with."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.devices: dict[str, dict[str, Device]] = {}
        self.preferences: dict[str, Preferences] = {}

    def put_user(self, user_id: str, fields: dict[str, Any]) -> User:
        """Store what is known of a person."""
        names = ("email", "locale", "timezone", "gmt_offset_seconds", "allowed_window")
        known = {name: fields.get(name) for name in names}
        user = User(user_id=user_id, updated_at=datetime.now(UTC), **known)
        self.users[user.user_id] = user
        return user

    def register(self, person: str, fields: dict[str, Any]) -> Device:
        """Give a device to a person, whoever had it before."""
        for devices in self.devices.values():
            devices.pop(fields["token"], None)
        now = datetime.now(UTC)
        device = Device(
            device_id=uuid7(),
            user_id=person,
            provider=fields["provider"],
            platform=fields["platform"],
            token_hash=short_hash(token_hash(fields["token"])),
            token_kind=fields["token_kind"],
            locale=fields.get("locale"),
            timezone=fields.get("timezone"),
            app_version=fields.get("app_version"),
            device_model=fields.get("device_model"),
            push_enabled=True,
            notification_count=0,
            last_sent_at=None,
            registered_at=now,
            last_seen_at=now,
            stale=False,
            retired_at=None,
            retired_reason=None,
        )
        self.devices.setdefault(person, {})[fields["token"]] = device
        return device

    def retire(self, person: str, which: dict[str, Any]) -> Device | None:
        """Retire one of a person's devices."""
        return self.change(person, which, retired_at=datetime.now(UTC), retired_reason="unregistered")

    def devices_of(self, person: str, *, include_retired: bool) -> list[Device]:
        """List a person's devices."""
        known = self.devices.get(person, {}).values()
        return [device for device in known if include_retired or device.retired_at is None]

    def change(self, person: str, which: dict[str, Any], **changes: Any) -> Device | None:
        """Change one of a person's devices, named by its token or its id."""
        for token, device in self.devices.get(person, {}).items():
            if which.get("token") == token or which.get("device_id") == str(device.device_id):
                changed = msgspec.structs.replace(device, **changes)
                self.devices[person][token] = changed
                return changed
        return None

    def choose(self, person: str, changes: dict[str, dict[str, bool | None] | None]) -> Preferences:
        """Lay changes over a person's choices."""
        choices = self.preferences.setdefault(person, {})
        for category, channels in changes.items():
            wanted = {} if channels is None else {**choices.get(category, {}), **channels}
            choices[category] = {channel: yes for channel, yes in wanted.items() if yes is not None}
        self.preferences[person] = {name: channels for name, channels in choices.items() if channels}
        return self.preferences[person]
