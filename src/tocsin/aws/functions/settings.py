"""The settings of functions, from their environment."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, TypeVar, get_origin

import msgspec
from msgspec import Meta

from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import TypeName
from tocsin.wire.streams.client_events import DEFAULT_STREAM

PREFIX = "DELIVERY_"
_UNUSABLE = "The variables of the function cannot be used:"

Url = Annotated[str, Meta(pattern=r"^https?://[^\s@]+\Z")]
RedisUrl = Annotated[str, Meta(pattern=r"^rediss?://\S+\Z")]
S = TypeVar("S", bound=msgspec.Struct)


class MobileSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where endpoints are found: by Tocsin's API, or in its database.

    `types` maps events to types of the catalog. Where the database is asked, `categories` maps types to
    categories and `org_scoping` keeps organisations apart: the catalog and the settings, which know, are with
    the API.
    """

    api_url: Url | None = None
    api_key: str = ""
    api_key_parameter: str = ""
    database_url: str = ""
    database_url_parameter: str = ""
    schema: Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_]{0,62}\Z")] = "tocsin"
    types: dict[str, TypeName] = {}
    categories: dict[str, str] = {}
    org_scoping: bool = False

    def __repr__(self) -> str:
        """Show no secrets."""
        return f"MobileSettings(api_url={self.api_url!r})"


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The stream of the gateway; it is trimmed to about `max_len` entries."""

    redis_url: RedisUrl | None = None
    redis_url_parameter: str = ""
    stream: Annotated[str, Meta(min_length=1, max_length=512)] = DEFAULT_STREAM
    max_len: Annotated[int, Meta(ge=1, le=100_000_000)] = 1_024

    def __repr__(self) -> str:
        """Show no secrets."""
        return f"WebSettings(stream={self.stream!r})"


def mobile_settings(environ: Mapping[str, str]) -> MobileSettings:
    """Read the settings of the function for phones, or raise SettingsError."""
    settings = _read(environ, MobileSettings)
    _refuse(*_mobile_faults(settings))
    return settings


def web_settings(environ: Mapping[str, str]) -> WebSettings:
    """Read the settings of the function for browsers, or raise SettingsError."""
    settings = _read(environ, WebSettings)
    if (settings.redis_url is None) == (not settings.redis_url_parameter):
        _refuse(_one_of("REDIS_URL", "REDIS_URL_PARAMETER"))
    return settings


def _mobile_faults(settings: MobileSettings) -> Iterator[Fault]:
    database = [settings.database_url, settings.database_url_parameter]
    if (settings.api_url is None) == (not any(database)):
        yield _one_of("API_URL", "DATABASE_URL", "DATABASE_URL_PARAMETER")
    if all(database):
        yield _one_of("DATABASE_URL", "DATABASE_URL_PARAMETER")
    if settings.api_url is not None and bool(settings.api_key) == bool(settings.api_key_parameter):
        yield _one_of("API_KEY", "API_KEY_PARAMETER")
    if settings.api_url is not None and settings.categories:
        message = "has no effect with the API, which reads the categories of the catalog"
        yield Fault(field=f"{PREFIX}CATEGORIES", code="contradiction", message=message)
    if settings.api_url is not None and settings.org_scoping:
        message = "has no effect with the API, which has auth.org_scoping in its settings"
        yield Fault(field=f"{PREFIX}ORG_SCOPING", code="contradiction", message=message)


def _one_of(*names: str) -> Fault:
    others = " and ".join(f"{PREFIX}{name}" for name in names[1:])
    message = f"exactly one of it and {others} must be set"
    return Fault(field=f"{PREFIX}{names[0]}", code="one_of", message=message)


def _read(environ: Mapping[str, str], kind: type[S]) -> S:
    """Read the variables of a function; an object is written as JSON."""
    types = {f"{PREFIX}{field.name.upper()}": field.type for field in msgspec.structs.fields(kind)}
    given = {name: text for name, text in environ.items() if name.startswith(PREFIX) and text}
    _refuse(*(_unknown(name, types) for name in given if name not in types))
    values: dict[str, object] = {}
    for name, text in given.items():
        value: object = text
        if get_origin(types[name]) is dict:
            try:
                value = msgspec.json.decode(text, type=dict)
            except (msgspec.DecodeError, RecursionError):
                _refuse(Fault(field=name, code="invalid", message='must be a JSON object: {"…": "…"}'))
        values[name.removeprefix(PREFIX).lower()] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        field = f"{PREFIX}{path.removesuffix('`').upper()}" if path else f"{PREFIX}*"
        raise SettingsError(_UNUSABLE, [Fault(field=field, code="invalid", message=message)]) from None


def _unknown(name: str, known: Iterable[str]) -> Fault:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return Fault(field=name, code="unknown", message=f"there is no such variable{hint}")


def _refuse(*faults: Fault) -> None:
    if faults:
        raise SettingsError(_UNUSABLE, faults)
