"""One frozen settings tree."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar, cast

import msgspec
from msgspec import Meta

from tocsin.api.auth.oidc.settings import OidcSettings
from tocsin.api.settings import AuthSettings, DashboardSettings, HttpSettings, ProbesSettings
from tocsin.aws.archive.settings import ArchiveSettings
from tocsin.domain.delivery.receipts import ReceiptSettings
from tocsin.domain.delivery.settings import DeliverySettings
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import EmailAddress
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.people.devices import DeviceSettings
from tocsin.domain.people.unsubscribe import UnsubscribeSettings
from tocsin.domain.retention import RetentionSettings
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.dispatch.settings import DispatchSettings
from tocsin.engine.health.settings import HealthSettings, RatesSettings, rates_type
from tocsin.engine.periodic.settings import PeriodicSettings
from tocsin.engine.toggles.settings import TogglesSettings
from tocsin.gateway.settings import GatewaySettings
from tocsin.ingress.directory.settings import DirectorySettings
from tocsin.ingress.mail_commands.settings import MailerSettings
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.ingress.redis_streams.settings import (
    RedisSettings,
    StreamSettings,
)
from tocsin.ingress.sqs.settings import QueueSettings
from tocsin.logs import LogSettings
from tocsin.providers.aws.settings import AwsSettings
from tocsin.providers.redis_streams.settings import StreamProviderSettings
from tocsin.providers.registry import ProviderEntry, Registry
from tocsin.providers.settings import ProviderSettings
from tocsin.store.pool import PoolSettings
from tocsin.store.secrets.sealing import DataSettings
from tocsin.telemetry.settings import MetricsSettings

S = TypeVar("S", bound=ProviderSettings)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set, but for the sections of providers, which `settings_type` adds.

    `workers` is how many worker processes `tocsin serve` starts.
    """

    registry: ClassVar[Registry] = {}

    database_url: str | None = None
    data_dir: Path | None = None
    schema: str = "tocsin"
    catalog: Path | None = None
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    admin_emails: dict[str, list[EmailAddress]] = {}
    http: HttpSettings = HttpSettings()
    dashboard: DashboardSettings = DashboardSettings()
    probes: ProbesSettings = ProbesSettings()
    metrics: MetricsSettings = MetricsSettings()
    auth: AuthSettings = AuthSettings()
    oidc: OidcSettings = OidcSettings()
    data: DataSettings = DataSettings()
    devices: DeviceSettings = DeviceSettings()
    pool: PoolSettings = PoolSettings()
    delivery: DeliverySettings = DeliverySettings()
    dispatch: DispatchSettings = DispatchSettings()
    health: HealthSettings = HealthSettings()
    rates: RatesSettings = RatesSettings()
    periodic: PeriodicSettings = PeriodicSettings()
    quiet_hours: QuietHoursSettings = QuietHoursSettings()
    limits: LimitsSettings = LimitsSettings()
    retention: RetentionSettings = RetentionSettings()
    toggles: TogglesSettings = TogglesSettings()
    unsubscribe: UnsubscribeSettings = UnsubscribeSettings()
    receipts: ReceiptSettings = ReceiptSettings()
    log: LogSettings = LogSettings()
    outboxes: dict[str, OutboxSettings] = {}
    redis: RedisSettings = RedisSettings()
    aws: AwsSettings = AwsSettings()
    streams: dict[str, StreamSettings] = {}
    queues: dict[str, QueueSettings] = {}
    archive: ArchiveSettings = ArchiveSettings()
    directory: DirectorySettings = DirectorySettings()
    gateway: GatewaySettings = GatewaySettings()
    mailer: MailerSettings = MailerSettings()

    def __repr__(self) -> str:
        """Show nothing: an address may hold a password."""
        return "Settings(…)"

    def provider(self, type_: type[S]) -> S:
        """Return a provider's section, by its type."""
        section: S = getattr(self, type_.section)
        return section


def settings_type(registry: Registry) -> type[Settings]:
    """Build the settings with a section and a rate for each provider of the registry."""
    if clashes := registry.keys() & (*Settings.__struct_fields__, *RatesSettings.__struct_fields__):
        faults = [Fault(field=name, code="taken", message="is another setting") for name in sorted(clashes)]
        raise SettingsError("A provider cannot have the name of another setting:", faults)
    rates = rates_type({name: entry.rate for name, entry in registry.items()})
    sections = [(name, entry.settings, entry.settings()) for name, entry in registry.items()]
    fields = [("rates", rates, rates()), *sections]
    namespace = {"registry": registry}
    built = msgspec.defstruct("Settings", fields, bases=(Settings,), namespace=namespace, kw_only=True)
    return cast("type[Settings]", built)


def stream_providers(settings: Settings) -> Iterator[StreamProviderSettings]:
    """List the sections of providers that append to streams."""
    for entry in settings.registry.values():
        if isinstance(section := settings.provider(entry.settings), StreamProviderSettings):
            yield section


def providers_in_use(settings: Settings) -> Mapping[str, ProviderEntry]:
    """Return the providers that are configured, by name."""
    return {
        name: entry
        for name, entry in settings.registry.items()
        if settings.provider(entry.settings).is_configured
    }
