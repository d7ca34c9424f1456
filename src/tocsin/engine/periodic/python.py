"""Periodic producers in Python: async generators in the modules that the settings name."""

import asyncio
import importlib
import re
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.domain.people.organisations import OrgId
from tocsin.engine.periodic.source import Source, SourceStep, read_intent
from tocsin.engine.periodic.times import schedule_fault
from tocsin.periodic import Body, Checkpoint, Periodic, Yielded
from tocsin.store.sources.progress import ProgressKind

_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")


class NotYieldableError(Exception):
    """A generator yielded neither an intent nor an intent with its checkpoint."""


class PythonSource(Source, frozen=True, kw_only=True):
    """A generator of intents."""

    kind: ProgressKind = "python"
    body: Body
    timeout_seconds: float

    async def steps(self, checkpoint: Checkpoint) -> AsyncGenerator[SourceStep]:
        """Run the generator and check what it yields."""
        running = cast("AsyncGenerator[Yielded]", self.body(checkpoint))
        async with aclosing(running):
            while True:
                try:
                    async with asyncio.timeout(self.timeout_seconds) as timeout:
                        yielded = await anext(running)
                except StopAsyncIteration:
                    return
                except TimeoutError as error:
                    if not timeout.expired():
                        raise
                    message = f"yielded nothing for {self.timeout_seconds:g} s (timeout_seconds)"
                    raise TimeoutError(message) from error
                yield _step(yielded)


def python_source(declared: Periodic) -> PythonSource:
    """Build the source of a declared producer."""
    return PythonSource(**msgspec.structs.asdict(declared))


def import_producers(modules: Sequence[str], faults: list[Fault]) -> list[PythonSource]:
    """Import modules and return their periodic producers; what is wrong is added to faults."""
    here = str(Path.cwd())
    if modules and here not in sys.path:
        # As `python -m` does and a console script does not: the application is where it is started.
        sys.path.insert(0, here)
    found: dict[int, Periodic] = {}
    for name in modules:
        try:
            module = importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a module may raise anything, and its author must see it
            message = f"cannot be imported: {type(error).__name__}: {error}"
            faults.append(Fault(field=name, code="import", message=message))
            continue
        declared = [value for value in vars(module).values() if isinstance(value, Periodic)]
        if not declared:
            message = "holds no periodic producer; declare one with @periodic from tocsin.periodic"
            faults.append(Fault(field=name, code="empty", message=message))
        for one in declared:
            found[id(one)] = one
            faults += _faults(name, one)
    return [python_source(one) for one in found.values()]


def name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a producer, or None."""
    if _NAME.fullmatch(name):
        return None
    allowed = "lower-case letters, digits and underscores, at most 100, starting with a letter"
    return f"name {name!r} must be {allowed}"


def _step(yielded: Any) -> SourceStep:
    match yielded:
        case Intent():
            return SourceStep(read_intent(yielded))
        case (Intent() as intent, value):
            return SourceStep(read_intent(intent), _as_json(value))
        case (None, value):
            return SourceStep(None, _as_json(value))
        case _:
            raise NotYieldableError(
                f"yielded {type(yielded).__name__}; yield an Intent, or (Intent, checkpoint)"
            )


def _as_json(value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError) as error:
        raise NotYieldableError(f"yielded a checkpoint that is no JSON: {error}") from error


def _faults(module: str, declared: Periodic) -> Iterator[Fault]:
    field = f"{module}.{declared.body.__name__}"
    if message := name_fault(declared.name):
        yield Fault(field=field, code="name", message=message)
    if message := schedule_fault(declared.schedule):
        yield Fault(field=field, code="schedule", message=message)
    try:
        msgspec.convert(declared.org_id, OrgId | None)
    except msgspec.ValidationError:
        message = "org_id must be a text of 1 to 128 characters without control characters"
        yield Fault(field=field, code="org_id", message=message)
    if declared.schedule.catch_up not in {"last", "all", "none"}:
        message = f"catch_up must be last, all or none, not {declared.schedule.catch_up!r}"
        yield Fault(field=field, code="catch_up", message=message)
