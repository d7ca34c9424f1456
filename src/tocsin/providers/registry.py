"""The one place that lists the providers: ours, and those of other packages.

A package adds a provider by an entry point of the group `tocsin.providers` that leads to a ProviderEntry.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec

from tocsin.domain.catalog import Channel
from tocsin.domain.delivery.message import Provider
from tocsin.domain.errors import ProviderSetupError, SettingsError
from tocsin.domain.faults import Fault
from tocsin.domain.people.device_tokens import DeviceRules
from tocsin.providers.apns.settings import ApnsSettings
from tocsin.providers.expo.settings import ExpoSettings
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.providers.gateway_stream.settings import GatewayStreamSettings
from tocsin.providers.inbox.settings import InboxSettings
from tocsin.providers.mail_stream.settings import MailStreamSettings
from tocsin.providers.settings import ProviderSettings
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.providers.sns.settings import SnsSettings
from tocsin.providers.webhook.settings import WebhookSettings
from tocsin.providers.webpush.settings import SECRET_NAME, WebPushSettings

GROUP = "tocsin.providers"


class KeptSecret(NamedTuple):
    """A secret of a provider: the one in its settings, or else one that is generated once and stored."""

    name: str
    generate: Callable[[], str]
    configured: Callable[[Any], str | None]


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """All that the rest of Tocsin knows of a provider.

    `build` takes the settings, the value of `secret` if there is one, and the further `sections` of the
    settings by their names. Without `devices` no device can be registered for it. `rate` is how many
    messages a second it gets unless set; 0 means no limit. `sandbox` holds the settings that lead to its
    stand-in, with the facts of a running sandbox in braces; those of another section have its name before
    a dot.
    """

    title: str
    channel: Channel
    settings: type[ProviderSettings]
    build: Callable[..., Provider]
    devices: DeviceRules | None = None
    rate: float = 0.0
    secret: KeptSecret | None = None
    sections: tuple[str, ...] = ()
    sandbox: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        """The name in settings, devices, toggles and logs."""
        return self.settings.section

    @property
    def is_installed(self) -> bool:
        """Whether the packages that it needs are there."""
        return self.build.is_installed if isinstance(self.build, ExtraBuilder) else True


Registry = Mapping[str, ProviderEntry]


class Imported(msgspec.Struct, frozen=True):
    """A function or class of a provider by its place below `tocsin.providers`, imported when it is called.

    The settings of all providers are read by every command, most of which use no provider.
    """

    module: str
    name: str

    def load(self) -> Callable[..., Any]:
        """Import the function."""
        function: Callable[..., Any] = getattr(import_module(f"tocsin.providers.{self.module}"), self.name)
        return function

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Import the function and call it."""
        return self.load()(*given, **named)


class ExtraBuilder(Imported, frozen=True):
    """Builds a provider whose packages are an extra of their own."""

    extra: str
    package: str

    @property
    def is_installed(self) -> bool:
        """Whether the packages of the extra are there."""
        return find_spec(self.package) is not None

    def load(self) -> Callable[..., Any]:
        """Import the provider, or raise ProviderSetupError."""
        try:
            return super().load()
        except ModuleNotFoundError as error:
            name = self.module.partition(".")[0]
            message = f"The provider {name} needs more packages: pip install 'tocsin[{self.extra}]'"
            raise ProviderSetupError(message) from error


_SANDBOX_URL = {"base_url": "{https_url}", "ca_file": "{ca_file}"}
_SANDBOX_HOSTS = {"enabled": "true", "ca_file": "{ca_file}", "allow_private_addresses": "true"}

BUILT_IN = (
    ProviderEntry(
        title="FCM",
        channel="push",
        settings=FcmSettings,
        build=Imported("fcm.provider", "FcmProvider"),
        devices=DeviceRules(token_kinds=("token", "fid")),
        sandbox=_SANDBOX_URL | {"credentials_file": "{service_account_file}"},
    ),
    ProviderEntry(
        title="APNs",
        channel="push",
        settings=ApnsSettings,
        build=Imported("apns.provider", "ApnsProvider"),
        devices=DeviceRules(token_fault=Imported("apns.render", "token_fault")),
        sandbox=_SANDBOX_URL
        | {
            "key_file": "{apns_key_file}",
            "key_id": "{apns_key_id}",
            "team_id": "{apns_team_id}",
            "topic": "com.example.app",
        },
    ),
    ProviderEntry(
        title="Expo",
        channel="push",
        settings=ExpoSettings,
        build=Imported("expo.provider", "ExpoProvider"),
        devices=DeviceRules(token_fault=Imported("expo.render", "token_fault")),
        rate=600.0,
        sandbox=_SANDBOX_URL | {"enabled": "true"},
    ),
    ProviderEntry(
        title="Web Push",
        channel="push",
        settings=WebPushSettings,
        build=Imported("webpush.provider", "WebPushProvider"),
        devices=DeviceRules(token_fault=Imported("webpush.provider", "token_fault")),
        secret=KeptSecret(
            SECRET_NAME, Imported("webpush.crypto", "new_private_key_pem"), WebPushSettings.private_key
        ),
        sandbox=_SANDBOX_HOSTS | {"subject": "mailto:ops@example.com"},
    ),
    ProviderEntry(
        title="Amazon SNS",
        channel="push",
        settings=SnsSettings,
        build=ExtraBuilder("sns.provider", "SnsProvider", "aws", "aiobotocore"),
        devices=DeviceRules(token_fault=Imported("sns.render", "token_fault")),
        sections=("aws",),
        sandbox=_SANDBOX_URL
        | {
            "gcm_app_arn": "arn:aws:sns:us-east-1:123456789012:app/GCM/sandbox",
            "apns_app_arn": "arn:aws:sns:us-east-1:123456789012:app/APNS/sandbox",
            "aws.access_key_id": "sandbox",
            "aws.secret_access_key": "sandbox",
        },
    ),
    ProviderEntry(
        title="SMTP",
        channel="email",
        settings=SmtpSettings,
        build=Imported("smtp.provider", "SmtpProvider"),
        sandbox={
            "host": "{host}",
            "port": "{smtp_port}",
            "username": "{smtp_username}",
            "password": "{smtp_password}",
            "sender": "Tocsin <notify@example.com>",
            "ca_file": "{ca_file}",
        },
    ),
    ProviderEntry(
        title="Webhooks",
        channel="webhook",
        settings=WebhookSettings,
        build=Imported("webhook.provider", "WebhookProvider"),
        sandbox=_SANDBOX_HOSTS,
    ),
    ProviderEntry(
        title="Inbox",
        channel="inbox",
        settings=InboxSettings,
        build=Imported("inbox.provider", "InboxProvider"),
        sandbox={"enabled": "true"},
    ),
    ProviderEntry(
        title="Gateway stream",
        channel="push",
        settings=GatewayStreamSettings,
        build=ExtraBuilder("gateway_stream.provider", "GatewayStreamProvider", "redis", "redis"),
    ),
    ProviderEntry(
        title="Mail stream",
        channel="email",
        settings=MailStreamSettings,
        build=ExtraBuilder("mail_stream.provider", "MailStreamProvider", "redis", "redis"),
    ),
)


def load_registry() -> Registry:
    """Return every provider by its name; raise SettingsError for an entry point that cannot be used."""
    registry = {entry.name: entry for entry in BUILT_IN}
    faults = []
    for point in entry_points(group=GROUP):
        found = _load(point)
        if isinstance(found, ProviderEntry) and found.name not in registry:
            registry[found.name] = found
            continue
        message = f"there is a provider {found.name!r} already" if isinstance(found, ProviderEntry) else found
        package = f" of the package {point.dist.name}" if point.dist else ""
        field = f"entry point {point.name} = {point.value}{package}"
        faults.append(Fault(field=field, code="unusable", message=message))
    if faults:
        raise SettingsError(f"An entry point of the group {GROUP} cannot be used:", faults)
    return registry


def _load(point: EntryPoint) -> ProviderEntry | str:
    """Return the entry that an entry point leads to, or what is wrong with it."""
    try:
        found = point.load()
    except Exception as error:  # noqa: BLE001 - whatever a foreign module raises is its fault to report
        return f"cannot be loaded: {type(error).__name__}: {error}"
    return (
        found if isinstance(found, ProviderEntry) else f"must be a ProviderEntry, not {type(found).__name__}"
    )


def device_rules(registry: Registry) -> Mapping[str, DeviceRules]:
    """Return the rules of every provider that devices can be registered for."""
    return {name: entry.devices for name, entry in registry.items() if entry.devices is not None}
