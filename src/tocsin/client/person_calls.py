"""The calls of a person's own app, made with the person's token."""

from urllib.parse import quote
from uuid import UUID

import msgspec

from tocsin.client.answers import Device, PreferenceChanges, Preferences
from tocsin.client.exchange import Call, Plan
from tocsin.client.replies import read
from tocsin.domain.people.device_tokens import USUAL_KIND, TokenKind
from tocsin.domain.people.devices import Platform, ProviderName


class _Devices(msgspec.Struct, frozen=True):
    devices: list[Device]


def register_device(
    token: str,
    platform: Platform,
    *,
    provider: ProviderName = "fcm",
    token_kind: TokenKind = USUAL_KIND,
    locale: str | None = None,
    timezone: str | None = None,
    app_version: str | None = None,
    device_model: str | None = None,
    replaces_token: str | None = None,
) -> Plan[Device]:
    """Register a device, or see it again; a token moves to whoever registers it."""
    fields = {
        "token": token,
        "platform": platform,
        "provider": provider,
        "token_kind": token_kind,
        "locale": locale,
        "timezone": timezone,
        "app_version": app_version,
        "device_model": device_model,
        "replaces_token": replaces_token,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    reply = yield Call("POST", "/v1/devices/register", msgspec.json.encode(given))
    return read(reply, Device)


def unregister_device(*, token: str | None = None, device_id: UUID | str | None = None) -> Plan[Device]:
    """Retire one of the person's devices, by its token or its id."""
    which = {"token": token, "device_id": device_id}
    body = {name: value for name, value in which.items() if value is not None}
    reply = yield Call("POST", "/v1/devices/unregister", msgspec.json.encode(body))
    return read(reply, Device)


def devices(*, include_retired: bool = False) -> Plan[list[Device]]:
    """List the person's devices."""
    query = (("include_retired", "true"),) if include_retired else ()
    reply = yield Call("GET", "/v1/devices", query=query)
    return read(reply, _Devices).devices


def change_device(device_id: UUID | str, *, push_enabled: bool) -> Plan[Device]:
    """Say whether the person wants pushes on a device."""
    body = msgspec.json.encode({"push_enabled": push_enabled})
    reply = yield Call("PATCH", f"/v1/devices/{quote(str(device_id), safe='')}", body)
    return read(reply, Device)


def preferences() -> Plan[Preferences]:
    """Read the person's choices; what is not among them is yes."""
    reply = yield Call("GET", "/v1/preferences")
    return read(reply, Preferences)


def change_preferences(changes: PreferenceChanges) -> Plan[Preferences]:
    """Change some of the person's choices and leave the others; None goes back to yes."""
    reply = yield Call("PATCH", "/v1/preferences", msgspec.json.encode(changes))
    return read(reply, Preferences)
