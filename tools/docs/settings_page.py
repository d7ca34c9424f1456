"""The reference of settings, from the tree that holds them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from tocsin.settings import PREFIX, Settings
from tools.docs.markdown import NONE, code, codes, page, table

SECTIONS: Mapping[str, str] = {
    "": "Everything",
    "http": "The HTTP listener",
    "auth": "People's tokens",
    "devices": "Devices",
    "pool": "Database connections",
    "dispatch": "Workers",
    "health": "When a provider is left alone",
    "rates": "How fast a provider is sent to",
    "fcm": "Firebase Cloud Messaging",
    "apns": "Apple Push Notification service",
    "expo": "Expo",
    "webpush": "Web Push",
    "smtp": "E-mail",
    "webhook": "Webhooks",
    "quiet_hours": "Quiet hours",
    "limits": "Limits",
    "toggles": "Toggles",
    "unsubscribe": "Leaving by a link",
    "log": "Logs",
    "periodic": "Periodic producers",
    "outboxes.NAME": "Outboxes",
    "outboxes.NAME.columns": "The columns of an outbox",
}

CONCURRENCY = "Messages under way at once in each worker."
CONNECT_TIMEOUT = "Seconds to wait for a connection."
TIMEOUT = "Seconds a message may take in all."
CA_FILE = "Certificates of an authority to trust besides the public ones, for a sandbox."
RATE = "The most messages a second, from all workers together; 0 means no limit."

MEANING: Mapping[str, str] = {
    "database_url": "The Postgres server to use. Left out, Tocsin runs its own under `data_dir`.",
    "data_dir": "Where the embedded Postgres lives. Left out: `/var/lib/tocsin` for root, else "
    "`$XDG_DATA_HOME/tocsin` or `~/.local/share/tocsin`.",
    "schema": "The schema that holds the tables. Several installations can share one database.",
    "catalog": "The [catalog](../guides/catalog.md)'s folder. Left out: the one that is shipped.",
    "workers": "How many worker processes `tocsin serve` starts.",
    "admin_emails": "For each type, who hears of it when its audience is `admins`. As a variable: "
    "`TOCSIN_ADMIN_EMAILS__NEW_CUSTOMER=a@example.com,b@example.com`.",
    "http.host": "The address to listen on.",
    "http.port": "The port to listen on; 0 takes a free one.",
    "http.max_body_bytes": "The largest body a producer may send.",
    "http.backlog": "How many connections may wait to be taken.",
    "http.drain_seconds": "How long requests under way may take once a stop was asked for.",
    "auth.jwt_secret": "Takes HS256 tokens signed with this secret, at least 32 bytes.",
    "auth.jwks_url": "Takes RS256 and ES256 tokens signed by a key of this key set.",
    "auth.issuer": "The `iss` that tokens must carry.",
    "auth.audience": "The `aud` that tokens must carry.",
    "auth.user_claim": "The claim that holds the user id.",
    "auth.leeway_seconds": "How far clocks may be apart.",
    "auth.jwks_timeout_seconds": "How long the key set may take to answer.",
    "devices.policy": "`many` keeps the devices seen last; `one_per_platform` the newest of each platform.",
    "devices.max_active": "How many active devices a person keeps under `many`.",
    "devices.registrations_per_hour": "How often a person may register a device.",
    "devices.stale_after_days": "After how many days unseen a device is marked as stale; 0 means never.",
    "devices.retire_after_days": "After how many days unseen a device is retired; 0 means never.",
    "pool.size": "Connections each process keeps at most.",
    "pool.connect_timeout": "Seconds to wait for a connection.",
    "pool.command_timeout": "Seconds a statement may take.",
    "dispatch.lease_seconds": "How long a worker's claim holds: at least twice the longest `timeout` of the "
    "providers in use, and 5 seconds.",
    "dispatch.poll_seconds": "How often an idle worker looks by itself, should a wake-up be lost.",
    "dispatch.stop_seconds": "How long a stopping worker waits for what is under way.",
    "health.window_seconds": "Over how long attempts are counted.",
    "health.least_attempts": "How many attempts there must be within it before they count.",
    "health.error_share": "Which share of them must have failed by the provider's fault.",
    "health.failures_in_a_row": "How many failures without a success between count too, however far apart; "
    "not for hosts of webhooks and browsers.",
    "health.rest_seconds": "How long it is left alone then; twice as long each time it fails again.",
    "health.longest_rest_seconds": "How long at most, unless a quota or refused credentials ask for longer.",
    "rates.fcm": RATE,
    "rates.apns": RATE,
    "rates.expo": RATE + " Expo takes 600 for each project.",
    "rates.webpush": RATE,
    "rates.smtp": RATE,
    "rates.webhook": RATE,
    "rates.ramp_seconds": "Within how many seconds a rate grows from a tenth to the whole after a provider "
    "was left alone.",
    "fcm.credentials_file": "The JSON key of a Google service account. Left out, FCM is not used.",
    "fcm.project_id": "The Firebase project. Left out: the service account's.",
    "fcm.base_url": "Where FCM is; change it for a [sandbox](../guides/sandbox.md) alone.",
    "fcm.max_concurrency": CONCURRENCY,
    "fcm.connect_timeout": CONNECT_TIMEOUT,
    "fcm.timeout": TIMEOUT,
    "fcm.ca_file": CA_FILE,
    "apns.key_file": "The `.p8` key that Apple handed out. Left out, APNs is not used.",
    "apns.key_id": "The key's id, as Apple's page shows it.",
    "apns.team_id": "The team's id, as Apple's page shows it.",
    "apns.topic": "The app's bundle id.",
    "apns.environment": "`sandbox` for apps that Xcode put on a phone, `production` for all others.",
    "apns.base_url": "Where APNs is. Left out: Apple's address for the environment.",
    "apns.max_concurrency": CONCURRENCY,
    "apns.connect_timeout": CONNECT_TIMEOUT,
    "apns.timeout": TIMEOUT,
    "apns.ca_file": CA_FILE,
    "expo.enabled": "Whether devices are reached by Expo.",
    "expo.access_token": "An access token of an Expo account, where the project asks for one.",
    "expo.base_url": "Where Expo is; change it for a [sandbox](../guides/sandbox.md) alone.",
    "expo.max_concurrency": CONCURRENCY + " A request carries up to 100.",
    "expo.connect_timeout": CONNECT_TIMEOUT,
    "expo.timeout": TIMEOUT,
    "expo.ca_file": CA_FILE,
    "webpush.enabled": "Whether browsers are reached.",
    "webpush.subject": "Where a push service finds you: `mailto:ops@example.com`, or a page as `https:`.",
    "webpush.private_key_file": "A P-256 private key in PEM form. Left out, one is made on the first start "
    "and kept in the database.",
    "webpush.max_concurrency": CONCURRENCY,
    "webpush.connect_timeout": CONNECT_TIMEOUT,
    "webpush.timeout": TIMEOUT,
    "webpush.ca_file": CA_FILE,
    "webpush.allow_private_addresses": "Whether endpoints may lie within your own network; for a sandbox.",
    "smtp.host": "The mail server. Left out, no mail is sent.",
    "smtp.port": "Its port: 587 for `starttls`, 465 for `tls`.",
    "smtp.security": "`none` speaks in plain text; with a password only to this machine.",
    "smtp.username": "The account, if the server asks for one.",
    "smtp.password": "Its password.",
    "smtp.sender": "The address in `From`, such as `Acme <notify@acme.example>`.",
    "smtp.reply_to": "Where answers go. Left out: to the sender.",
    "smtp.connections": "Connections open at most in each worker, each for one mail at a time.",
    "smtp.timeout": "Seconds a mail may take in all.",
    "smtp.ca_file": CA_FILE,
    "webhook.enabled": "Whether endpoints are called.",
    "webhook.max_concurrency": CONCURRENCY,
    "webhook.connect_timeout": CONNECT_TIMEOUT,
    "webhook.timeout": TIMEOUT,
    "webhook.ca_file": CA_FILE,
    "webhook.allow_private_addresses": "Whether endpoints may lie within your own network.",
    "webhook.user_agent": "What the sender calls itself.",
    "quiet_hours.enabled": "Whether people are left in peace outside their window.",
    "quiet_hours.start": "From when people may be disturbed, by their own clock.",
    "quiet_hours.end": "Until when.",
    "quiet_hours.spread_seconds": "Over how long what was held leaves after the window opens.",
    "quiet_hours.default_timezone": "The zone of whoever has none.",
    "quiet_hours.categories": "A window of its own for a category, `08:00-23:00` or `always`. As a variable: "
    "`TOCSIN_QUIET_HOURS__CATEGORIES__ALERTS=always`.",
    "limits.per_person_per_day": "The most a person gets in their own day.",
    "limits.per_device_per_day": "The most a device gets in its owner's day.",
    "limits.categories": "The most a person gets of a category in their own day.",
    "limits.beyond": "What becomes of the rest: `skip` with the reason, or `defer` to the next day.",
    "toggles.provider": "An OpenFeature provider as `module:callable`. Left out: our own table.",
    "unsubscribe.secret": "Signs the links for leaving a category, at least 32 bytes.",
    "unsubscribe.base_url": "Where the links point: this API as mail readers reach it.",
    "log.level": "The least that is logged.",
    "log.format": "`auto` is `console` on a terminal and `json` elsewhere.",
    "periodic.modules": "Python modules that declare periodic producers.",
    "periodic.folder": "A folder of scans.",
    "periodic.databases": "The databases that scans read, each under a name of your own.",
    "periodic.lease_seconds": "How long a worker's hold on a run lasts if the worker dies.",
    "outboxes.NAME.url": "The application's database, `postgresql://…`. `NAME` is a name of your own.",
    "outboxes.NAME.schema": "The schema of the outbox table.",
    "outboxes.NAME.table": "The outbox table.",
    "outboxes.NAME.producer": "In whose name its intents are accepted. Left out: `NAME`.",
    "outboxes.NAME.batch": "How many rows are read at once.",
    "outboxes.NAME.poll_seconds": "How often it is looked at, should a wake-up be lost.",
    "outboxes.NAME.order": "With `aggregate`, the rows of one aggregate are handed in one after the other.",
    "outboxes.NAME.keep_days": "How many days published rows are kept; 0 means for good. Left out: 7 for "
    "`intent`, for good otherwise.",
    "outboxes.NAME.envelope": "What the rows hold.",
    "outboxes.NAME.types": "For `fisa`: the type of the catalog for each type of the rows.",
    "outboxes.NAME.columns.id": "The row's number.",
    "outboxes.NAME.columns.payload": "What the row holds.",
    "outboxes.NAME.columns.type": "The type of the row.",
    "outboxes.NAME.columns.aggregate": "The kind of thing that the row is about.",
    "outboxes.NAME.columns.aggregate_id": "Which one it is about.",
    "outboxes.NAME.columns.created_at": "When it was written.",
    "outboxes.NAME.columns.published_at": "When it was handed in.",
    "outboxes.NAME.columns.failed_attempts": "How often that failed.",
    "outboxes.NAME.columns.next_retry_at": "When it is tried next.",
    "outboxes.NAME.columns.last_error": "Why it failed.",
}


class Setting(NamedTuple):
    """One leaf of the settings tree."""

    path: tuple[str, ...]
    kind: Any
    default: Any

    @property
    def name(self) -> str:
        """Name it as a settings file does."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Name it as an environment variable."""
        return PREFIX + "__".join(self.path).upper()


def every_setting(kind: type[msgspec.Struct] = Settings, path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """List the settings in the order they are declared."""
    for field in msgspec.structs.fields(kind):
        where = (*path, field.name)
        if _is_section(field.type):
            yield from every_setting(field.type, where)
        elif get_origin(field.type) is dict and _is_section(get_args(field.type)[1]):
            yield from every_setting(get_args(field.type)[1], (*where, "NAME"))
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            yield Setting(where, field.type, default)


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def settings_page() -> str:
    """Write the page."""
    settings = list(every_setting())
    if undescribed := {setting.name for setting in settings} ^ MEANING.keys():
        raise ValueError(f"tools/docs/settings_page.py does not match the settings: {sorted(undescribed)}")
    intro = (
        "A setting stands in `tocsin.toml` in the current folder, or in the file that `TOCSIN_CONFIG` names, "
        "and a variable of the same name goes before it: `port` in the section `[http]` is "
        "`TOCSIN_HTTP__PORT`, with two underscores between the levels. A setting that is unknown, wrong or "
        "contradicts another stops the start, and the message names it."
    )
    example = (
        '```toml title="tocsin.toml"\ndatabase_url = "postgresql://tocsin:change-me@db.example.com/tocsin"\n'
        'catalog = "/etc/tocsin/catalog"\nworkers = 2\n\n'
        '[http]\nhost = "0.0.0.0"\n\n[fcm]\ncredentials_file = "/etc/tocsin/service-account.json"\n'
        "max_concurrency = 200\n```"
    )
    blocks = [intro, example]
    for section, title in SECTIONS.items():
        inside = [setting for setting in settings if ".".join(setting.path[:-1]) == section]
        heading = f"## {title}" + (f": `[{section}]`" if section else "")
        blocks += [
            heading,
            table(["setting", "value", "unless set", "meaning"], map(_row, inside)),
        ]
    return page("Settings", *blocks)


def _row(setting: Setting) -> list[str]:
    default = NONE if setting.default in (None, {}, [], "") else code(_shown(setting.default))
    return [
        f"{code(setting.path[-1])}<br>{code(setting.variable)}",
        _kind(setting.kind),
        default,
        MEANING[setting.name],
    ]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _kind(kind: Any) -> str:
    """Describe a type in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = arguments[1]
        return _kind(arguments[0]) + _range(bounds)
    if origin in {Union, UnionType}:
        return " or ".join(_kind(member) for member in arguments if member is not NoneType)
    if origin is Literal:
        return codes(arguments)
    if origin is dict:
        return f"for each: {_kind(arguments[1])}"
    if origin is list:
        return "list, with commas between"
    return {str: "text", bool: "yes or no", int: "whole number", float: "number", Path: "path"}[kind]


def _range(bounds: msgspec.Meta) -> str:
    low, above, high = bounds.ge, bounds.gt, bounds.le
    parts = []
    if low is not None:
        parts.append(f"from {low:,}")
    if above is not None:
        parts.append(f"above {above:,}")
    if high is not None:
        parts.append(f"up to {high:,}")
    return f", {' '.join(parts)}" if parts else ""
