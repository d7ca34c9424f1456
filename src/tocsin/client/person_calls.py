"""The calls of a person's app, made with the person's token, without I/O."""

from urllib.parse import quote
from uuid import UUID

from tocsin.client.exchange import Flow
from tocsin.client.replies import call
from tocsin.domain.people.device_tokens import USUAL_KIND, TokenKind
from tocsin.domain.people.devices import Platform, ProviderName
from tocsin.wire.people import (
    ChangeDevice,
    Device,
    DeviceList,
    PreferenceChanges,
    Preferences,
    RegisterDevice,
)


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
) -> Flow[Device]:
    """Register a device, or mark it as seen; a token that had another owner moves to the person."""
    device = RegisterDevice(
        token=token,
        platform=platform,
        provider=provider,
        token_kind=token_kind,
        locale=locale,
        timezone=timezone,
        app_version=app_version,
        device_model=device_model,
        replaces_token=replaces_token,
    )
    return call(Device, "POST", "/v1/devices/register", device)


def unregister_device(
    *, token: str | None = None, device_id: UUID | str | None = None, endpoint_arn: str | None = None
) -> Flow[Device]:
    """Retire one of the person's devices, by its token, its id or its endpoint at Amazon SNS."""
    given = {"token": token, "device_id": device_id, "endpoint_arn": endpoint_arn}
    body = {name: value for name, value in given.items() if value is not None}
    return call(Device, "POST", "/v1/devices/unregister", body)


def devices(*, include_retired: bool = False) -> Flow[list[Device]]:
    """List the person's devices."""
    query = (("include_retired", "true"),) if include_retired else ()
    return (yield from call(DeviceList, "GET", "/v1/devices", query=query)).devices


def change_device(device_id: UUID | str, *, push_enabled: bool) -> Flow[Device]:
    """Allow or stop pushes to one of the person's devices."""
    change = ChangeDevice(push_enabled=push_enabled)
    return call(Device, "PATCH", f"/v1/devices/{quote(str(device_id), safe='')}", change)


def preferences() -> Flow[Preferences]:
    """Return the person's choices; a missing choice means yes."""
    return call(Preferences, "GET", "/v1/preferences")


def change_preferences(changes: PreferenceChanges) -> Flow[Preferences]:
    """Change some of the person's choices and keep the others; None resets a choice to yes."""
    return call(Preferences, "PATCH", "/v1/preferences", changes)
