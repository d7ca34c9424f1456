"""The settings of Redis and of each stream of intents."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.domain.people.organisations import OrgId
from tocsin.ingress.names import name_faults
from tocsin.wire.streams.intents import DEFAULT_STREAM

NO_URL = "or redis.url, must be set: redis://…"
_SCHEMES = ("redis", "rediss", "unix")
_ESCAPED = "what is no letter or digit in a password must be percent-encoded"
_OPTIONS = {"client_name", "db", "password", "username"}
_TLS_OPTIONS = {
    *("ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"),
    "ssl_password",
}
HANDED_ON = {
    "gateway_stream": "client events",
    "mail_stream": "mail commands",
    "gateway": "client events",
    "mailer": "mail commands",
}
"""The kinds of entries besides intents, by the sections of those that write and read them."""

_DATABASE = re.compile(r"[0-9]{1,9}")


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Redis server that streams are on, unless they name their own."""

    url: str = ""
    timeout: Annotated[float, Meta(gt=0, le=60)] = 2.0

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return "RedisSettings(…)"


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stream of intents: its key, and how it is read.

    A reader that dies is replaced once its lease, `lease_seconds`, has expired. With `org_id`, all of its
    intents are for people of that organisation.
    """

    url: str = ""
    stream: Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^[^\x00]+\Z")] = DEFAULT_STREAM
    batch: Annotated[int, Meta(ge=1, le=1_000)] = 500
    block_seconds: Annotated[float, Meta(ge=0.05, le=10)] = 2.0
    lease_seconds: Annotated[float, Meta(ge=3, le=300)] = 10.0
    org_id: OrgId | None = None

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return f"StreamSettings({self.stream})"


def stream_settings_faults(redis: RedisSettings, streams: Mapping[str, StreamSettings]) -> Iterator[Fault]:
    """Check names and addresses of the streams."""
    holders: dict[tuple[str, str], str] = {}
    if redis.url and (message := url_fault(redis.url)):
        yield Fault(field="redis.url", code="invalid", message=message)
    yield from name_faults("streams", streams)
    for name, settings in streams.items():
        where = f"streams.{name}"
        url = settings.url or redis.url
        if not url:
            yield Fault(field=f"{where}.url", code="missing", message=NO_URL)
        yield from reader_faults(where, settings)
        if (holder := holders.setdefault((database_of(url), settings.stream), name)) != name:
            message = f"{settings.stream} is read by streams.{holder} already"
            yield Fault(field=f"{where}.stream", code="contradiction", message=message)


def shared_stream_faults(
    redis: RedisSettings, streams: Mapping[str, StreamSettings], sections: Mapping[str, Any]
) -> Iterator[Fault]:
    """List streams that two kinds of entries would share: events, mail commands, intents.

    `sections` are those of all settings, by name.
    """
    used = [(kind, name, sections[name]) for name, kind in HANDED_ON.items() if name in sections]
    used += [("intents", f"streams.{name}", settings) for name, settings in streams.items()]
    holders: dict[tuple[str, str], tuple[str, str]] = {}
    for kind, name, section in used:
        url = section.url or redis.url
        if not url or not getattr(section, "enabled", True):
            continue
        holder, other = holders.setdefault((database_of(url), section.stream), (name, kind))
        if other != kind:
            setting = f"{holder}.stream (TOCSIN_{holder.upper()}__STREAM)"
            message = f"{section.stream} is {setting} too, on the same Redis; each needs a stream of its own"
            yield Fault(field=f"{name}.stream", code="contradiction", message=message)


def reader_faults(where: str, settings: StreamSettings) -> Iterator[Fault]:
    """Check how one stream is read; `where` is its section."""
    if settings.url and (message := url_fault(settings.url)):
        yield Fault(field=f"{where}.url", code="invalid", message=message)
    if settings.block_seconds * 1.5 > settings.lease_seconds:
        message = f"must be at least one and a half times block_seconds ({settings.block_seconds:g})"
        yield Fault(field=f"{where}.lease_seconds", code="contradiction", message=message)


def database_of(url: str) -> str:
    """Return the server and database of an address, the same for every user, password and spelling."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        return url
    is_socket, path = parts.scheme == "unix", parts.path.strip("/")
    server = path if is_socket else f"{parts.hostname}:{port}"
    number = dict(parse_qsl(parts.query)).get("db") or ("" if is_socket else path)
    return f"{server}/{number.lstrip('0')}"


def url_fault(url: str) -> str | None:
    """Return what is wrong with an address, without quoting it: it may hold a password.

    The client library takes options of an address as its own arguments, which go before those that Tocsin
    sets, and raises for one that it does not have only when it connects.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in _SCHEMES and bool(parts.port or parts.hostname or parts.path)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        # As with a slash in a password, which has to be written %2F.
        return f"is not an address: {_ESCAPED}"
    if not is_address:
        return "must be an address of Redis: redis://, rediss:// or unix://"
    if parts.fragment or any(map(str.isspace, url)):
        return f"is not an address: {_ESCAPED}"
    database = options.get("db", "0" if parts.scheme == "unix" else parts.path.strip("/") or "0")
    if not _DATABASE.fullmatch(database):
        return f"must end with the number of a database, or nothing, after the host; {_ESCAPED}"
    known = _OPTIONS | _TLS_OPTIONS if parts.scheme == "rediss" else _OPTIONS
    if not known.issuperset(options):
        return f"may have these options only: {', '.join(sorted(known))}"
    if options.get("ssl_cert_reqs", "required") not in {"required", "optional", "none"}:
        return "must have required, optional or none as ssl_cert_reqs"
    return None
