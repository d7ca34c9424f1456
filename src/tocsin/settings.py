"""One frozen settings tree, from `tocsin.toml` and `TOCSIN_*`."""

import difflib
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta

from tocsin.api.settings import AuthSettings, HttpSettings, ProbesSettings, auth_settings_faults
from tocsin.domain.catalog import variable_form
from tocsin.domain.delivery.settings import DeliverySettings, delivery_settings_faults
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import EmailAddress
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.people.devices import DeviceSettings, device_settings_faults
from tocsin.domain.people.unsubscribe import UnsubscribeSettings, unsubscribe_settings_faults
from tocsin.domain.plan import HAND_OFF
from tocsin.domain.retention import RetentionSettings, retention_settings_faults
from tocsin.domain.timing.quiet_hours import QuietHoursSettings, quiet_hours_faults
from tocsin.engine.dispatch.lane import DispatchSettings
from tocsin.engine.health.circuit_breakers import HealthSettings, health_settings_faults
from tocsin.engine.health.rate_limits import RatesSettings, rates_type
from tocsin.engine.periodic.load import PeriodicSettings, periodic_settings_faults
from tocsin.engine.retention.prune import pruning_schedule_faults
from tocsin.engine.toggles.flags import TogglesSettings, toggles_settings_faults
from tocsin.gateway.settings import GatewaySettings, gateway_settings_faults
from tocsin.ingress.directory.settings import DirectorySettings, directory_settings_faults
from tocsin.ingress.mail_commands.settings import MailerSettings
from tocsin.ingress.outbox.settings import OutboxSettings, outbox_settings_faults
from tocsin.ingress.redis_streams.settings import (
    RedisSettings,
    StreamSettings,
    reader_faults,
    shared_stream_faults,
    stream_settings_faults,
)
from tocsin.ingress.redis_streams.settings import url_fault as redis_url_fault
from tocsin.logs import LogSettings
from tocsin.profiles.profile import VARIABLE, Profile, merge, read_profile
from tocsin.providers.redis_streams.settings import StreamProviderSettings
from tocsin.providers.registry import ProviderEntry, Registry, load_registry
from tocsin.providers.settings import ProviderSettings
from tocsin.store.pool import PoolSettings, schema_fault, url_fault
from tocsin.store.secrets.sealing import DataSettings, data_settings_faults
from tocsin.telemetry.settings import MetricsSettings

PREFIX = "TOCSIN_"
NOT_SETTINGS = {"TOCSIN_CONFIG", "TOCSIN_TEST_DATABASE_URL", "TOCSIN_SERVER", "TOCSIN_KEY", VARIABLE}
SETTLE_SLACK = 5.0

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
    probes: ProbesSettings = ProbesSettings()
    metrics: MetricsSettings = MetricsSettings()
    auth: AuthSettings = AuthSettings()
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
    log: LogSettings = LogSettings()
    outboxes: dict[str, OutboxSettings] = {}
    redis: RedisSettings = RedisSettings()
    streams: dict[str, StreamSettings] = {}
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


def load_settings(environ: Mapping[str, str] | None = None, file: Path | None = None) -> Settings:
    """Load the settings, or raise SettingsError with everything that is wrong with them."""
    environ = os.environ if environ is None else environ
    chosen = file or (Path(environ["TOCSIN_CONFIG"]) if "TOCSIN_CONFIG" in environ else None)
    type_ = settings_type(load_registry())
    tree, profile = _read_file(chosen), read_profile(environ)
    faults: list[Fault] = []
    if profile is not None:
        tree = merge(merge(profile.defaults, tree), profile.given)
        faults += profile.faults
    _override(tree, environ, faults)
    if isinstance(by_type := tree.get("admin_emails"), dict):
        tree["admin_emails"] = _by_type(by_type)
    settings: Settings = _build(type_, tree, (), faults)
    faulty = _faulty_settings(faults, profile)
    if "redis.url" in faulty:
        # Whoever uses it is not missing an address of its own.
        settings = msgspec.structs.replace(
            settings, redis=msgspec.structs.replace(settings.redis, url="redis://unknown")
        )
    settings = _with_redis(settings)
    faults += [
        fault for fault in _contradictions(settings, faulty) if fault.field.partition(" ")[0] not in faulty
    ]
    if faults:
        named = [profile.named(fault) for fault in faults] if profile else faults
        raise SettingsError("The settings cannot be used:", named)
    return settings


def _faulty_settings(faults: Sequence[Fault], profile: Profile | None) -> set[str]:
    """Return the settings whose values cannot be used; their defaults stand in for them."""
    faulty = {fault.field.partition(" ")[0] for fault in faults}
    return faulty | profile.decided_by(faulty) if profile else faulty


def _with_redis(settings: Settings) -> Settings:
    """Set the address of Redis in the sections of providers that name none."""
    filled = {
        section.section: msgspec.structs.replace(section, url=settings.redis.url)
        for section in _stream_providers(settings)
        if not section.url
    }
    return msgspec.structs.replace(settings, **filled)


def _stream_providers(settings: Settings) -> Iterator[StreamProviderSettings]:
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


def default_data_dir() -> Path:
    """Return where the embedded database lives: as root, where its own user may enter.

    A container's user may have no home: then SettingsError is raised.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/tocsin")
    if base := os.environ.get("XDG_DATA_HOME"):
        return Path(base) / "tocsin"
    try:
        return Path.home() / ".local" / "share" / "tocsin"
    except RuntimeError:
        fault = Fault(
            field=setting_name(("data_dir",)), code="missing", message="must be set: this user has no home"
        )
        raise SettingsError("The settings cannot be used:", [fault]) from None


def setting_name(path: tuple[str, ...]) -> str:
    """Return the name of a setting, with its environment variable."""
    return f"{'.'.join(path)} ({PREFIX}{'__'.join(path).upper()})"


class _FromEnvironment(str):
    """A value from the environment, which is text whatever its type is to be."""

    __slots__ = ()


def _read_file(chosen: Path | None) -> dict[str, Any]:
    file = chosen or Path("tocsin.toml")
    if not file.exists() and chosen is None:
        return {}
    try:
        return tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        fault = Fault(field=str(file), code="unreadable", message=f"cannot be read: {error}")
        raise SettingsError("The settings cannot be used:", [fault]) from error


def _override(tree: dict[str, Any], environ: Mapping[str, str], faults: list[Fault]) -> None:
    """Override the file with variables: TOCSIN_HTTP__PORT becomes http.port."""
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        *parents, leaf = name.removeprefix(PREFIX).lower().split("__")
        branch = tree
        for parent in parents:
            below = branch.setdefault(parent, {})
            if not isinstance(below, dict):
                faults.append(
                    Fault(field=name, code="unknown", message=f"{parent} holds no further settings")
                )
                break
            branch = below
        else:
            branch[leaf] = _FromEnvironment(value)


def _by_type(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section with a setting for each type: levels are the parts of the name of a type.

    A variable goes before the file whatever form the name has there: see `variable_form`.
    """
    flat = dict(_flattened(section, ()))
    overridden = {variable_form(name) for name, value in flat.items() if isinstance(value, _FromEnvironment)}
    return {
        name: value
        for name, value in flat.items()
        if isinstance(value, _FromEnvironment) or variable_form(name) not in overridden
    }


def _flattened(section: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, (*path, name))
        else:
            yield ".".join((*path, name)), value


def _build(type_: Any, value: Any, path: tuple[str, ...], faults: list[Fault]) -> Any:
    """Convert a value, section by section and field by field, so that every fault is found."""
    section, named = _section(type_), _named_sections(type_)
    if section is None and named is None:
        try:
            return _convert(value, type_)
        except msgspec.ValidationError as error:
            message = f"{error}".replace("`", "").partition(" - at")[0]
            faults.append(Fault(field=setting_name(path), code="invalid", message=message))
            return UNSET
    if not isinstance(value, Mapping):
        message = "must be a section" + (" with a section for each name" if named else "")
        faults.append(Fault(field=setting_name(path), code="type", message=message))
        return UNSET
    if section is None:
        return _valid({name: _build(named, below, (*path, name), faults) for name, below in value.items()})
    fields = {field.name: field.type for field in msgspec.structs.fields(section)}
    faults += (_unknown((*path, name), fields) for name in value if name not in fields)
    known = ((name, below) for name, below in value.items() if name in fields)
    return section(
        **_valid({name: _build(fields[name], below, (*path, name), faults) for name, below in known})
    )


def _valid(built: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what has faults: its default is checked together with the other settings."""
    return {name: value for name, value in built.items() if value is not UNSET}


def _section(type_: Any) -> type[msgspec.Struct] | None:
    return type_ if isinstance(type_, type) and issubclass(type_, msgspec.Struct) else None


def _named_sections(type_: Any) -> type[msgspec.Struct] | None:
    """Return the type of the sections where any number of them may be set, each under a name of its own."""
    return _section(get_args(type_)[1]) if get_origin(type_) is dict else None


def _convert(value: Any, expected: Any) -> Any:
    if isinstance(value, Mapping):
        _, each = get_args(expected)
        return {key: _convert(item, each) for key, item in value.items()}
    if isinstance(value, _FromEnvironment) and get_origin(expected) is list:
        value = [part.strip() for part in value.split(",") if part.strip()]
    textual = isinstance(value, _FromEnvironment)
    return msgspec.convert(str(value) if textual else value, expected, strict=not textual, dec_hook=_as_path)


def _as_path(type_: type, value: Any) -> Any:
    if type_ is Path and isinstance(value, str) and value:
        return Path(value).expanduser()
    raise msgspec.ValidationError("Expected a path")


def _unknown(path: tuple[str, ...], fields: Mapping[str, Any]) -> Fault:
    near = difflib.get_close_matches(path[-1], fields, n=1)
    hint = f"; did you mean {setting_name((*path[:-1], near[0]))}?" if near else ""
    return Fault(field=setting_name(path), code="unknown", message=f"there is no such setting{hint}")


def _contradictions(settings: Settings, faulty: Collection[str]) -> Iterator[Fault]:
    entries = settings.registry.values()
    for fault in (
        *auth_settings_faults(settings.auth),
        *data_settings_faults(settings.data),
        *delivery_settings_faults(settings.delivery),
        *device_settings_faults(settings.devices),
        *quiet_hours_faults(settings.quiet_hours),
        *unsubscribe_settings_faults(settings.unsubscribe),
        *toggles_settings_faults(settings.toggles),
        *periodic_settings_faults(settings.periodic),
        *health_settings_faults(settings.health),
        *retention_settings_faults(settings.retention),
        *pruning_schedule_faults(settings.retention),
        *chain.from_iterable(settings.provider(entry.settings).faults() for entry in entries),
        *outbox_settings_faults(settings.outboxes),
        *stream_settings_faults(settings.redis, settings.streams),
        *shared_stream_faults(settings.redis, settings.streams, msgspec.structs.asdict(settings)),
        *directory_settings_faults(settings.directory),
        *gateway_settings_faults(settings.gateway),
        *reader_faults("mailer", settings.mailer),
    ):
        named = setting_name(tuple(fault.field.split(".")))
        yield Fault(field=named, code=fault.code, message=fault.message)
    urls: dict[tuple[str, ...], str | None] = {("database_url",): settings.database_url}
    urls |= {("outboxes", name, "url"): outbox.url for name, outbox in settings.outboxes.items()}
    urls |= {("periodic", "databases", name): url for name, url in settings.periodic.databases.items()}
    for path, url in urls.items():
        if url and (message := url_fault(url)):
            yield Fault(field=setting_name(path), code="invalid", message=message)
    for section in _stream_providers(settings):
        if section.url != settings.redis.url and (message := redis_url_fault(section.url)):
            yield Fault(field=setting_name((section.section, "url")), code="invalid", message=message)
    if message := schema_fault(settings.schema):
        yield Fault(field=setting_name(("schema",)), code="invalid", message=message)
    if settings.catalog and not settings.catalog.is_dir():
        yield Fault(field=setting_name(("catalog",)), code="missing", message="is not a folder")
    if {"dispatch", *settings.registry}.isdisjoint(each.partition(".")[0] for each in faulty):
        yield from _lease_faults(settings)
        yield from _hand_off_faults(settings)


def _lease_faults(settings: Settings) -> Iterator[Fault]:
    """List a lease too short: half of it may be spent waiting, the other half must last for the attempt."""
    in_use = providers_in_use(settings).items()
    timeouts = {name: settings.provider(entry.settings).timeout for name, entry in in_use}
    if not timeouts:
        return
    slowest = max(timeouts, key=lambda name: timeouts[name])
    longest = 2 * timeouts[slowest] + min(SETTLE_SLACK, 2 * timeouts[slowest])
    if settings.dispatch.lease_seconds < longest:
        yield Fault(
            field=setting_name(("dispatch", "lease_seconds")),
            code="contradiction",
            message=f"must be at least {longest:g}: with {setting_name((slowest, 'timeout'))} = "
            f"{timeouts[slowest]:g} a send may begin when half of the lease is over, and it is settled "
            "under the same lease",
        )


def _hand_off_faults(settings: Settings) -> Iterator[Fault]:
    """List providers beside one that takes every message of their channel to another service."""
    in_use = providers_in_use(settings)
    for name in sorted(HAND_OFF & in_use.keys()):
        channel = in_use[name].channel
        for other in sorted(
            each for each, entry in in_use.items() if entry.channel == channel and each != name
        ):
            yield Fault(
                field=setting_name((name, settings.provider(in_use[name].settings).enabled_by)),
                code="contradiction",
                message=f"cannot be used together with {other}: {name} hands every {channel} to another "
                f"service, and a message would have two ways. Remove the settings of one of them",
            )
