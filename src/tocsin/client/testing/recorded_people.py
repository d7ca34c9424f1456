"""The users, devices and preferences that a recording holds."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET

from tocsin.client.exchange import ClientRequest
from tocsin.domain.ids import uuid7
from tocsin.domain.people.devices import short_hash, token_hash
from tocsin.wire.people import (
    ChangeDevice,
    Device,
    DeviceList,
    PreferenceChanges,
    Preferences,
    PutUser,
    RegisterDevice,
    UnregisterDevice,
    User,
)

_REGISTERED = set(Device.__struct_fields__) & set(RegisterDevice.__struct_fields__) - {"user_id"}
_ENDPOINTS = "arn:aws:sns:us-east-1:123456789012:endpoint/GCM/recorded/"
_NEW_DEVICE: dict[str, Any] = {
    "push_enabled": True,
    "notification_count": 0,
    "last_sent_at": None,
    "stale": False,
    "retired_at": None,
    "retired_reason": None,
}


class RecordedPeople:
    """Stores what was put and registered; a person is identified by the token of their calls."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._preferences: dict[str, Preferences] = {}
        self._devices: dict[str, Device] = {}

    def answer(self, request: ClientRequest, parts: list[str], body: bytes) -> object:
        """Return the response to a call, or None if there is no such user or device."""
        person = request.secret.value
        match parts:
            case ["PUT", "users", user_id]:
                return self._put_user(user_id, msgspec.json.decode(body, type=PutUser))
            case ["GET", "users", user_id]:
                return self._users.get(user_id)
            case ["POST", "devices", "register"]:
                return self._register(person, msgspec.json.decode(body, type=RegisterDevice))
            case ["POST", "devices", "unregister"]:
                return self._retire(person, msgspec.json.decode(body, type=UnregisterDevice))
            case ["GET", "devices"]:
                return DeviceList(self._devices_of(person, include_retired=bool(request.call.query)))
            case ["PATCH", "devices", device_id]:
                change = msgspec.json.decode(body, type=ChangeDevice)
                return self._change(person, device_id, push_enabled=change.push_enabled)
            case ["GET", "preferences"]:
                return self._preferences.get(person, {})
            case ["PATCH", "preferences"]:
                return self._choose(person, msgspec.json.decode(body))
            case _:
                return None

    def _put_user(self, user_id: str, user: PutUser) -> User:
        known = self._users.get(user_id)
        org_id = (known.org_id if known else None) if user.org_id is UNSET else user.org_id
        fields = msgspec.structs.asdict(user) | {"attributes": user.attributes or {}, "org_id": org_id}
        self._users[user_id] = User(user_id=user_id, updated_at=datetime.now(UTC), **fields)
        return self._users[user_id]

    def _register(self, person: str, wanted: RegisterDevice) -> Device:
        now = datetime.now(UTC)
        fields = {
            name: value for name, value in msgspec.structs.asdict(wanted).items() if name in _REGISTERED
        }
        fields |= {"device_id": uuid7(), "user_id": person, "registered_at": now, "last_seen_at": now}
        if wanted.provider == "sns":
            fields["endpoint_arn"] = f"{_ENDPOINTS}{fields['device_id']}"
        device = Device(token_hash=short_hash(token_hash(wanted.token)), **fields, **_NEW_DEVICE)
        self._devices[wanted.token] = device
        return device

    def _retire(self, person: str, which: UnregisterDevice) -> Device | None:
        known = self._devices.get(which.token or "")
        by_arn = which.endpoint_arn.removeprefix(_ENDPOINTS) if which.endpoint_arn else which.device_id
        device_id = str(known.device_id if known else by_arn)
        return self._change(person, device_id, retired_at=datetime.now(UTC), retired_reason="unregistered")

    def _devices_of(self, person: str, *, include_retired: bool) -> list[Device]:
        return [
            device
            for device in self._devices.values()
            if device.user_id == person and (include_retired or device.retired_at is None)
        ]

    def _change(self, person: str, device_id: str, **changes: Any) -> Device | None:
        for token, device in self._devices.items():
            if device.user_id == person and str(device.device_id) == device_id:
                self._devices[token] = msgspec.structs.replace(device, **changes)
                return self._devices[token]
        return None

    def _choose(self, person: str, changes: PreferenceChanges) -> Preferences:
        choices = self._preferences.get(person, {})
        for category, channels in changes.items():
            merged = {} if channels is None else {**choices.get(category, {}), **channels}
            choices[category] = {channel: yes for channel, yes in merged.items() if yes is not None}
        self._preferences[person] = {name: channels for name, channels in choices.items() if channels}
        return self._preferences[person]
