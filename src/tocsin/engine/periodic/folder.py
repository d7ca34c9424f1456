"""Scans declared in YAML: the files of a folder, each a mapping of scans by name."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.schema import KeyPath
from tocsin.catalog.source import YamlSource, read_source
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.domain.timing.schedule import CatchUp, Schedule, ValueType, read_value
from tocsin.engine.periodic.python import name_fault
from tocsin.engine.periodic.row import IntentPattern, compile_pattern
from tocsin.engine.periodic.scan import ScanSource, bind_last
from tocsin.engine.periodic.source import BATCH
from tocsin.engine.periodic.times import schedule_fault

NOW = "now"
_PART = re.compile(r"\.(\w+)|\[(\d+)\]")

Text = Annotated[str, Meta(min_length=1)]


class CheckpointDeclaration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The column by which rows are ordered; `initial` is where the first run begins."""

    column: Text
    type: ValueType
    initial: Any


class ScanDeclaration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scan as declared in YAML; `key` lists the columns that identify a row."""

    schedule: Text
    timezone: str = "UTC"
    catch_up: CatchUp = "last"
    database: Text
    query: Text
    statement_timeout_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    batch: Annotated[int, Meta(ge=1, le=1_000)] = BATCH
    checkpoint: CheckpointDeclaration
    key: Text | Annotated[list[Text], Meta(min_length=1)]
    producer: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    type: Text
    version: int | None = None
    audience: dict[str, Any]
    payload: dict[str, Any]
    send_at: str | None = None
    send_at_local: str | None = None
    ttl_seconds: int | str | None = None
    collapse_key: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    occurred_at: str | None = None
    locale: str | None = None
    org_id: str | None = None


_INTENT_FIELDS = [name for name in Intent.__struct_fields__ if name in ScanDeclaration.__struct_fields__]


class Surroundings(msgspec.Struct, frozen=True):
    """What scans are checked against: the databases by name, the catalog, and the current time."""

    databases: Mapping[str, str]
    catalog: Catalog
    now: datetime


def read_scans(folder: Path, around: Surroundings, faults: list[Fault]) -> list[ScanSource]:
    """Load every scan of a folder; what is wrong is added to faults."""
    scans = []
    for path in sorted(folder.glob("*.y*ml")):
        try:
            source = read_source(path.name, path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            faults.append(Fault(field=path.name, code="unreadable", message=f"cannot be read: {error}"))
            continue
        faults += source.faults
        if source.faults:
            continue
        if not isinstance(source.value, dict):
            faults.append(source.fault((), "type", "must be a mapping of scans by name"))
            continue
        for name, value in source.value.items():
            scan = _scan(source, name, value, around, faults)
            if scan is not None:
                scans.append(scan)
    return scans


def _scan(
    source: YamlSource, name: str, value: Any, around: Surroundings, faults: list[Fault]
) -> ScanSource | None:
    if message := name_fault(name):
        faults.append(source.fault((name,), "name", message))
    try:
        declared = msgspec.convert(value, ScanDeclaration)
    except msgspec.ValidationError as error:
        message, _, at = str(error).replace("`", "").partition(" - at $")
        place = tuple(int(number) if number else field for field, number in _PART.findall(at))
        where = f" ({at.lstrip('.')})" if at else ""
        faults.append(source.fault((name, *place), "invalid", f"{name}: {message}{where}"))
        return None
    before = len(faults)
    faults += (
        source.fault((name, *place), code, f"{name}: {message}")
        for place, code, message in _faults(declared, around)
    )
    path = f"{source.path}:{source.line((name,))}"
    given = {field: given for field in _INTENT_FIELDS if (given := getattr(declared, field)) is not None}
    fields = compile_pattern(given, path, faults)
    if len(faults) > before:
        return None
    value_type, initial = declared.checkpoint.type, declared.checkpoint.initial
    return ScanSource(
        name=name,
        producer=declared.producer or name,
        schedule=_schedule(declared),
        database=declared.database if declared.database in around.databases else "named in the file",
        url=around.databases.get(declared.database, declared.database),
        statement=bind_last(declared.query, value_type),
        column=declared.checkpoint.column,
        value_type=value_type,
        initial=msgspec.to_builtins(around.now if _is_now(declared) else read_value(initial, value_type)),
        pattern=IntentPattern(
            name=name,
            key=[declared.key] if isinstance(declared.key, str) else declared.key,
            fields=fields,
        ),
        batch=declared.batch,
        statement_timeout=declared.statement_timeout_seconds,
    )


def _schedule(declared: ScanDeclaration) -> Schedule:
    return Schedule(declared.schedule, declared.timezone, declared.catch_up)


def _is_now(declared: ScanDeclaration) -> bool:
    return declared.checkpoint.type == "timestamptz" and declared.checkpoint.initial == NOW


def _faults(declared: ScanDeclaration, around: Surroundings) -> Iterator[tuple[KeyPath, str, str]]:
    if message := schedule_fault(_schedule(declared)):
        yield ("schedule",), "schedule", message
    try:
        bind_last(declared.query, declared.checkpoint.type)
    except ValueError as error:
        yield ("query",), "query", f"the query {error}"
    try:
        if not _is_now(declared):
            read_value(declared.checkpoint.initial, declared.checkpoint.type)
    except ValueError as error:
        yield ("checkpoint", "initial"), "initial", f"initial {error}"
    if "://" not in declared.database and declared.database not in around.databases:
        known = ", ".join(sorted(around.databases)) or "none"
        message = (
            f"there is no database {declared.database!r}; the settings name {known}. "
            f"Set TOCSIN_PERIODIC__DATABASES__{declared.database.upper()} to its address"
        )
        yield ("database",), "database", message
    if around.catalog.find(declared.type, declared.version) is None:
        version = "" if declared.version is None else f" version {declared.version}"
        yield ("type",), "type", f"the catalog has no type {declared.type!r}{version}"
