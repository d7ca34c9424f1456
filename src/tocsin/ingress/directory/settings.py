"""The settings of the directory that recipients are looked up in."""

from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.store.pool import url_fault

_PORT = "must have a port from 1 to 65535, or none"


class DirectorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the mail address and language of a person come from.

    `builtin` is Tocsin's own directory. `http` asks a service for each person; `sql` runs a query with the
    user ids as `$1`, an array, that returns each `user_id` as it was asked for, `email` and
    `preferred_language`.
    """

    kind: Literal["builtin", "http", "sql"] = "builtin"
    url: str = ""
    query: str = ""
    timeout: Annotated[float, Meta(gt=0, le=60)] = 1.0
    concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 20
    cache_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 30.0

    def __repr__(self) -> str:
        """Show no address: it may hold a password."""
        return f"DirectorySettings({self.kind})"


def directory_settings_faults(settings: DirectorySettings) -> Iterator[Fault]:
    """Check that what the kind of directory needs is set, and nothing else."""
    if settings.kind == "builtin":
        for name in ("url", "query"):
            if getattr(settings, name):
                hint = 'is for kind = "http" or "sql"'
                yield Fault(field=f"directory.{name}", code="contradiction", message=hint)
        return
    fault = _http_url_fault if settings.kind == "http" else _sql_url_fault
    if message := fault(settings.url):
        yield Fault(field="directory.url", code="invalid" if settings.url else "missing", message=message)
    if settings.kind == "sql" and "$1" not in settings.query:
        hint = "must select user_id, email and preferred_language of the user ids $1"
        yield Fault(field="directory.query", code="invalid" if settings.query else "missing", message=hint)
    if settings.kind == "http" and settings.query:
        yield Fault(field="directory.query", code="contradiction", message='is for kind = "sql"')


def _http_url_fault(url: str) -> str | None:
    """Return what is wrong with the address of a service, without quoting it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "cannot be parsed"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "must be the address of the directory: http:// or https:// and a host"
    if parts.query or parts.fragment or not url.isprintable() or " " in url:
        return "must be a plain address, without query, fragment or spaces"
    return None if _has_port(parts.netloc) else _PORT


def _sql_url_fault(url: str) -> str | None:
    """Return what is wrong with the address of a database, without quoting it."""
    if message := url_fault(url):
        return message
    hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    return None if all(map(_has_port, hosts)) else _PORT


def _has_port(netloc: str) -> bool:
    """Return whether the port of a host is one, or left out."""
    try:
        return urlsplit(f"//{netloc}").port != 0
    except ValueError:
        return False
