"""Devices as the apps of fisa register them: the fields of its own document."""

import msgspec

from tocsin.domain.people.devices import DeviceToken, Platform
from tocsin.wire.checks import ShortText


class RegisterFisaDevice(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A device with the token of its platform: `apns_token` on iOS, `fcm_token` elsewhere."""

    platform: Platform
    fcm_token: DeviceToken | None = None
    apns_token: DeviceToken | None = None
    device_model: ShortText | None = None
    app_version: ShortText | None = None

    @property
    def token_field(self) -> str:
        """The field that has the token of the platform."""
        return "apns_token" if self.platform == "ios" else "fcm_token"


class RegisteredFisaDevice(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint of a registered device."""

    endpoint_arn: str


class UnregisterFisaDevice(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The device to retire, by its endpoint or by the token of its app."""

    endpoint_arn: DeviceToken | None = None
    fcm_token: DeviceToken | None = None
    apns_token: DeviceToken | None = None


class UnregisteredFisaDevice(msgspec.Struct, frozen=True):
    """Nothing more is said."""
