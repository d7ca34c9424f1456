"""The profile `galaxy`: the notification service of a game platform, by its `NOTIFICATION_*` variables."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tocsin.domain.faults import Fault
from tocsin.profiles import values
from tocsin.profiles.galaxy_variables import DEPRECATED, FIXED, PREFIX, VARIABLES
from tocsin.profiles.profile import Leaf, Profile

FOLDER = Path("examples") / "galaxy"
SHORTEST_STREAM_LEASE = 10.0
_MAPPINGS = ("admin_emails", "delivery.channel_attempts")
_SOURCE_TREE = Path(__file__).parents[3]

# Where several variables decide a setting, or one value several settings that differ.
_COMBINED = frozenset(
    {
        "INTERNAL_HTTP_ADDR",
        "INTERNAL_HTTP_READ_HEADER_TIMEOUT",
        "INTERNAL_HTTP_READ_TIMEOUT",
        "REDIS_MASTER_ADDR",
        "REDIS_PASSWORD",
        "REDIS_DB",
        "INTENTS_READ_BLOCK_TIMEOUT",
        "ROUTE_BACKOFF_MIN",
        "ROUTE_BACKOFF_MAX",
    }
)


def galaxy(environ: Mapping[str, str]) -> Profile:
    """Read the variables of the service, with every fault that they have."""
    faults = [*_refused(environ)]
    parsed: dict[str, Any] = {}
    given = {each.name for each in VARIABLES if environ.get(PREFIX + each.name)}
    for each in VARIABLES:
        value = environ.get(PREFIX + each.name) or each.default
        if value is None:
            if each.required:
                faults.append(Fault(field=PREFIX + each.name, code="missing", message="must be set"))
            continue
        try:
            parsed[each.name] = each.parse(value)
        except ValueError as error:
            faults.append(Fault(field=PREFIX + each.name, code="invalid", message=str(error)))
            if each.default is not None:
                # What is wrong with the others is looked for all the same.
                parsed[each.name] = each.parse(each.default)
    console = {f"OTEL_{signal}_EXPORTER": "console" for signal in _to_stdout(parsed)}
    faults += _exporter_faults(environ, parsed)
    leaves = [Leaf(tuple(setting.split(".")), value) for setting, value in FIXED.items()]
    leaves += _direct(parsed, given)
    leaves += _combined(parsed, given)
    leaves += _catalog(environ, faults)
    return Profile(
        name="galaxy",
        leaves=tuple(leaves),
        faults=tuple(faults),
        variables=_variables(),
        environment=console,
        unused=tuple(
            PREFIX + each.name
            for each in VARIABLES
            if each.name in given and not each.settings and each.parse is not values.boolean
        ),
    )


def _refused(environ: Mapping[str, str]) -> Iterator[Fault]:
    known = [each.name for each in VARIABLES]
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known:
            continue
        if name in DEPRECATED:
            message = f"is no longer read; {DEPRECATED[name]}"
            yield Fault(field=variable, code="deprecated", message=message)
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {PREFIX}{near[0]}?" if near else ""
        yield Fault(field=variable[:100], code="unknown", message=f"there is no such variable{hint}")


def _path(setting: str) -> tuple[str, ...]:
    """Return the path of a setting; the name of a type has dots of its own."""
    head, _, rest = setting.partition(".")
    return (head, rest) if head == "admin_emails" else tuple(setting.split("."))


def _direct(parsed: Mapping[str, Any], given: set[str]) -> Iterator[Leaf]:
    """Set what one variable decides alone."""
    for each in VARIABLES:
        if each.name in parsed and each.name not in _COMBINED:
            for setting in each.settings:
                yield Leaf(_path(setting), parsed[each.name], each.name in given)


def _combined(parsed: Mapping[str, Any], given: set[str]) -> Iterator[Leaf]:
    """Set what several variables decide together, as far as they can be parsed."""

    def leaf(setting: str, value: Callable[..., Any], *names: str) -> Iterator[Leaf]:
        if all(name in parsed for name in names):
            found = value(*(parsed[name] for name in names))
            yield Leaf(_path(setting), found, not given.isdisjoint(names))

    yield from leaf("probes.host", lambda at: at.host, "INTERNAL_HTTP_ADDR")
    yield from leaf("probes.port", lambda at: at.port, "INTERNAL_HTTP_ADDR")
    read = ("INTERNAL_HTTP_READ_HEADER_TIMEOUT", "INTERNAL_HTTP_READ_TIMEOUT")
    yield from leaf("probes.header_seconds", min, *read)
    redis = ("REDIS_MASTER_ADDR", "REDIS_PASSWORD", "REDIS_DB")
    yield from leaf("redis.url", _redis_url, *redis)
    block = "INTENTS_READ_BLOCK_TIMEOUT"
    yield from leaf("streams.galaxy.block_seconds", float, block)
    yield from leaf("streams.galaxy.lease_seconds", _stream_lease, block)
    yield from leaf("delivery.backoff", _backoff, "ROUTE_BACKOFF_MIN", "ROUTE_BACKOFF_MAX")


def _redis_url(address: values.Address, password: str, database: int) -> str:
    return f"redis://:{quote(password, safe='')}@{address.host}:{address.port}/{database}"


def _stream_lease(block_seconds: float) -> float:
    return max(SHORTEST_STREAM_LEASE, 1.5 * block_seconds)


def _backoff(shortest: float, longest: float) -> str:
    return f"exponential({_milliseconds(shortest)}, {_milliseconds(longest)}, 2, 0)"


def _milliseconds(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds.is_integer() else f"{ceil(seconds * 1_000)}ms"


def _catalog(environ: Mapping[str, str], faults: list[Fault]) -> Iterator[Leaf]:
    """Set the catalog and, beside it, the tables: those of the working folder, or of the source tree."""
    chosen = environ.get("TOCSIN_CATALOG")
    folders = [Path(chosen).expanduser()] if chosen else [_at / FOLDER / "catalog" for _at in _places()]
    for folder in folders:
        if folder.is_dir():
            yield Leaf(("catalog",), str(folder))
            yield Leaf(("gateway_stream", "tables"), str(folder.parent / "tables"))
            return
    if not chosen:
        message = f"must be set: there is no {FOLDER / 'catalog'} in this folder"
        faults.append(Fault(field="catalog (TOCSIN_CATALOG)", code="missing", message=message))


def _places() -> tuple[Path, ...]:
    return (Path.cwd(), _SOURCE_TREE)


def _to_stdout(parsed: Mapping[str, Any]) -> list[str]:
    return [signal for signal in ("TRACES", "METRICS") if parsed.get(f"OTEL_STDOUT_{signal}_ENABLED")]


def _exporter_faults(environ: Mapping[str, str], parsed: Mapping[str, Any]) -> Iterator[Fault]:
    """List exporters that are set besides standard output: each signal goes to one place."""
    for signal in _to_stdout(parsed):
        others = [
            name
            for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
            if environ.get(name)
        ]
        if environ.get(f"OTEL_{signal}_EXPORTER", "console") != "console":
            others.append(f"OTEL_{signal}_EXPORTER")
        if others:
            message = f"{signal.lower()} are exported to one place; leave it out, or {', '.join(others)}"
            yield Fault(field=f"{PREFIX}OTEL_STDOUT_{signal}_ENABLED", code="contradiction", message=message)


def _variables() -> Mapping[str, tuple[str, ...]]:
    """Return the variables that decide each setting; faults of a mapping are those of all its keys."""
    deciding: dict[str, tuple[str, ...]] = {}
    for each in VARIABLES:
        for setting in each.settings:
            mapping = next((name for name in _MAPPINGS if setting.startswith(f"{name}.")), setting)
            for name in {setting, mapping}:
                deciding[name] = (*deciding.get(name, ()), PREFIX + each.name)
    return deciding
