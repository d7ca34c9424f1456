"""The settings of the directory that recipients are looked up in."""

from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault

_SCHEMES = {"http": ("http", "https"), "sql": ("postgresql", "postgres")}


class DirectorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the mail address and language of a person come from.

    `builtin` is Tocsin's own directory. `http` asks a service for each person; `sql` runs a query with the
    user ids as `$1`, a text array, that returns `user_id`, `email` and `preferred_language`.
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
                message = 'is for kind = "http" or "sql"'
                yield Fault(field=f"directory.{name}", code="contradiction", message=message)
        return
    schemes = _SCHEMES[settings.kind]
    try:
        scheme = urlsplit(settings.url).scheme
    except ValueError:
        scheme = ""
    if scheme not in schemes:
        code = "invalid" if settings.url else "missing"
        message = f"must be the address of the directory: {' or '.join(f'{each}://' for each in schemes)}"
        yield Fault(field="directory.url", code=code, message=message)
    if settings.kind == "sql" and "$1" not in settings.query:
        message = "must select user_id, email and preferred_language of the user ids $1"
        yield Fault(field="directory.query", code="invalid" if settings.query else "missing", message=message)
    if settings.kind == "http" and settings.query:
        yield Fault(field="directory.query", code="contradiction", message='is for kind = "sql"')
