"""One frozen settings tree, from `tocsin.toml` and `TOCSIN_*`."""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Meta

from tocsin.api.auth.tokens import AuthSettings, auth_settings_faults
from tocsin.api.server import HttpSettings, http_settings_faults
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import EmailAddress
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.people.devices import DeviceSettings, device_settings_faults
from tocsin.domain.people.unsubscribe import UnsubscribeSettings, unsubscribe_settings_faults
from tocsin.domain.timing.quiet_hours import QuietHoursSettings, quiet_hours_faults
from tocsin.engine.dispatch.dispatcher import DispatchSettings
from tocsin.engine.health.circuit_breakers import HealthSettings, health_settings_faults
from tocsin.engine.health.rate_limits import RatesSettings
from tocsin.engine.periodic.load import periodic_settings_faults
from tocsin.engine.periodic.scheduler import PeriodicSettings
from tocsin.engine.toggles.flags import TogglesSettings, toggles_settings_faults
from tocsin.ingress.outbox.settings import OutboxSettings, outbox_settings_faults
from tocsin.logs import LogSettings
from tocsin.providers.apns.provider import ApnsSettings, apns_settings_faults
from tocsin.providers.expo.provider import ExpoSettings, expo_settings_faults
from tocsin.providers.fcm.provider import FcmSettings, fcm_settings_faults
from tocsin.providers.smtp.provider import SmtpSettings, smtp_settings_faults
from tocsin.providers.webhook.provider import WebhookSettings, webhook_settings_faults
from tocsin.providers.webpush.provider import WebPushSettings, webpush_settings_faults
from tocsin.store.pool import PoolSettings, schema_fault

PREFIX = "TOCSIN_"
NOT_SETTINGS = {"TOCSIN_CONFIG", "TOCSIN_TEST_DATABASE_URL"}
SETTLE_SLACK = 5.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set. `workers` is how many worker processes `tocsin serve` starts."""

    database_url: str | None = None
    data_dir: Path | None = None
    schema: str = "tocsin"
    catalog: Path | None = None
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    admin_emails: dict[str, list[EmailAddress]] = {}
    http: HttpSettings = HttpSettings()
    auth: AuthSettings = AuthSettings()
    devices: DeviceSettings = DeviceSettings()
    pool: PoolSettings = PoolSettings()
    dispatch: DispatchSettings = DispatchSettings()
    health: HealthSettings = HealthSettings()
    rates: RatesSettings = RatesSettings()
    periodic: PeriodicSettings = PeriodicSettings()
    fcm: FcmSettings = FcmSettings()
    apns: ApnsSettings = ApnsSettings()
    expo: ExpoSettings = ExpoSettings()
    webpush: WebPushSettings = WebPushSettings()
    smtp: SmtpSettings = SmtpSettings()
    webhook: WebhookSettings = WebhookSettings()
    quiet_hours: QuietHoursSettings = QuietHoursSettings()
    limits: LimitsSettings = LimitsSettings()
    toggles: TogglesSettings = TogglesSettings()
    unsubscribe: UnsubscribeSettings = UnsubscribeSettings()
    log: LogSettings = LogSettings()
    outboxes: dict[str, OutboxSettings] = {}

    def __repr__(self) -> str:
        """Tell nothing: an address may hold a password."""
        return "Settings(…)"


def load_settings(environ: Mapping[str, str] | None = None, file: Path | None = None) -> Settings:
    """Read the settings, or raise with everything that is wrong with them."""
    environ = os.environ if environ is None else environ
    chosen = file or (Path(environ["TOCSIN_CONFIG"]) if "TOCSIN_CONFIG" in environ else None)
    tree = _read_file(chosen)
    faults: list[Fault] = []
    _lay_over(tree, environ, faults)
    values = _build(Settings, tree, (), faults)
    if not faults:
        settings = Settings(**values)
        faults += _contradictions(settings)
        if not faults:
            return settings
    raise SettingsError("The settings cannot be used:", faults)


def providers_in_use(settings: Settings) -> tuple[str, ...]:
    """Name the providers that are set up."""
    set_up = {
        "fcm": settings.fcm.credentials_file is not None,
        "apns": settings.apns.key_file is not None,
        "expo": settings.expo.enabled,
        "webpush": settings.webpush.enabled,
        "smtp": settings.smtp.host is not None,
        "webhook": settings.webhook.enabled,
    }
    return tuple(name for name, is_set_up in set_up.items() if is_set_up)


def default_data_dir() -> Path:
    """Choose where the embedded database lives: as root, where its own user may enter."""
    if os.geteuid() == 0:
        return Path("/var/lib/tocsin")
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "tocsin"


def setting_name(path: tuple[str, ...]) -> str:
    """Name a setting in both its ways."""
    return f"{'.'.join(path)} ({PREFIX}{'__'.join(path).upper()})"


class _FromEnvironment(str):
    """A value that came as text, whatever its type is to be."""

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


def _lay_over(tree: dict[str, Any], environ: Mapping[str, str], faults: list[Fault]) -> None:
    """Put variables over the file: TOCSIN_HTTP__PORT becomes http.port."""
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


def _build(
    kind: type[msgspec.Struct], tree: Mapping[str, Any], path: tuple[str, ...], faults: list[Fault]
) -> dict[str, Any]:
    """Convert one level field by field, so that every fault is found and named."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in tree.items():
        where = (*path, name)
        if name not in fields:
            faults.append(_unknown(where, fields))
            continue
        expected = fields[name].type
        if (section := _section(expected)) is not None:
            values[name] = _build_section(section, value, where, faults)
        elif (section := _named_sections(expected)) is not None:
            values[name] = _build_sections(section, value, where, faults)
        else:
            try:
                values[name] = _convert(value, expected)
            except msgspec.ValidationError as error:
                message = f"{error}".replace("`", "").partition(" - at")[0]
                faults.append(Fault(field=setting_name(where), code="invalid", message=message))
    return values


def _section(kind: Any) -> type[msgspec.Struct] | None:
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


def _named_sections(kind: Any) -> type[msgspec.Struct] | None:
    """Give what each section is where any number of them may be set, each under a name of its own."""
    return _section(get_args(kind)[1]) if get_origin(kind) is dict else None


def _build_section(
    kind: type[msgspec.Struct], value: Any, path: tuple[str, ...], faults: list[Fault]
) -> msgspec.Struct:
    if not isinstance(value, Mapping):
        faults.append(Fault(field=setting_name(path), code="type", message="must be a section"))
        return kind()
    return kind(**_build(kind, value, path, faults))


def _build_sections(
    kind: type[msgspec.Struct], value: Any, path: tuple[str, ...], faults: list[Fault]
) -> dict[str, msgspec.Struct]:
    if not isinstance(value, Mapping):
        message = "must be a section with a section for each name"
        faults.append(Fault(field=setting_name(path), code="type", message=message))
        return {}
    return {name: _build_section(kind, below, (*path, name), faults) for name, below in value.items()}


def _convert(value: Any, expected: Any) -> Any:
    if isinstance(value, Mapping):
        _, each = get_args(expected)
        return {key: _convert(item, each) for key, item in value.items()}
    if get_origin(expected) is list:
        value = _split(value)
    textual = isinstance(value, _FromEnvironment)
    return msgspec.convert(str(value) if textual else value, expected, strict=not textual, dec_hook=_as_path)


def _split(value: Any) -> Any:
    if isinstance(value, _FromEnvironment):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _as_path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str) and value:
        return Path(value).expanduser()
    raise msgspec.ValidationError("Expected a path")


def _unknown(path: tuple[str, ...], fields: Mapping[str, Any]) -> Fault:
    near = difflib.get_close_matches(path[-1], fields, n=1)
    hint = f"; did you mean {setting_name((*path[:-1], near[0]))}?" if near else ""
    return Fault(field=setting_name(path), code="unknown", message=f"there is no such setting{hint}")


def _contradictions(settings: Settings) -> Iterator[Fault]:
    for fault in (
        *http_settings_faults(settings.http),
        *auth_settings_faults(settings.auth),
        *device_settings_faults(settings.devices),
        *quiet_hours_faults(settings.quiet_hours),
        *unsubscribe_settings_faults(settings.unsubscribe),
        *toggles_settings_faults(settings.toggles),
        *periodic_settings_faults(settings.periodic),
        *health_settings_faults(settings.health),
        *fcm_settings_faults(settings.fcm),
        *apns_settings_faults(settings.apns),
        *expo_settings_faults(settings.expo),
        *webpush_settings_faults(settings.webpush),
        *smtp_settings_faults(settings.smtp),
        *webhook_settings_faults(settings.webhook),
        *outbox_settings_faults(settings.outboxes),
    ):
        named = setting_name(tuple(fault.field.split(".")))
        yield Fault(field=named, code=fault.code, message=fault.message)
    if message := schema_fault(settings.schema):
        yield Fault(field=setting_name(("schema",)), code="invalid", message=message)
    if settings.catalog and not settings.catalog.is_dir():
        yield Fault(field=setting_name(("catalog",)), code="missing", message="is not a folder")
    yield from _lease_faults(settings)


def _lease_faults(settings: Settings) -> Iterator[Fault]:
    """Find a lease too short: half of it may be spent waiting, the other half must last for the attempt."""
    timeouts = {name: getattr(settings, name).timeout for name in providers_in_use(settings)}
    if not timeouts:
        return
    slowest = max(timeouts, key=lambda name: timeouts[name])
    longest = 2 * timeouts[slowest] + SETTLE_SLACK
    if settings.dispatch.lease_seconds < longest:
        yield Fault(
            field=setting_name(("dispatch", "lease_seconds")),
            code="contradiction",
            message=f"must be at least {longest:g}: with {setting_name((slowest, 'timeout'))} = "
            f"{timeouts[slowest]:g} a send may begin when half of the lease is over, and it is settled "
            "under the same lease",
        )
