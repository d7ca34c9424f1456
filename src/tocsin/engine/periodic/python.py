"""Periodic producers in Python: found in the modules that the settings name."""

import asyncio
import importlib
import re
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, cast

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.domain.timing.schedule import Schedule
from tocsin.engine.periodic.source import Moved, Step, read_intent
from tocsin.engine.periodic.times import schedule_fault
from tocsin.periodic import Checkpoint, Periodic, Yielded

BATCH = 500
NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
WHAT_A_NAME_IS = "must be lower-case letters, digits and underscores, at most 100, starting with a letter"


class NotYieldableError(Exception):
    """A generator yielded what is neither an intent nor an intent with its checkpoint."""


class PythonSource(msgspec.Struct, frozen=True):
    """A generator of intents."""

    declared: Periodic

    kind: Literal["python"] = "python"
    value_type: None = None
    initial: None = None
    batch: int = BATCH

    @property
    def name(self) -> str:
        """By which its progress is kept."""
        return self.declared.name

    @property
    def producer(self) -> str:
        """Whose idempotency keys its intents carry."""
        return self.declared.producer

    @property
    def schedule(self) -> Schedule:
        """When it runs."""
        return self.declared.schedule

    async def steps(self, checkpoint: Checkpoint) -> AsyncGenerator[Step]:
        """Run the generator and check what it yields."""
        running = cast("AsyncGenerator[Yielded]", self.declared.body(checkpoint))
        async with aclosing(running):
            while True:
                try:
                    async with asyncio.timeout(self.declared.timeout_seconds) as patience:
                        yielded = await anext(running)
                except StopAsyncIteration:
                    return
                except TimeoutError as error:
                    if not patience.expired():
                        raise
                    seconds = f"{self.declared.timeout_seconds:g} s"
                    raise TimeoutError(f"yielded nothing for {seconds} (timeout_seconds)") from error
                yield _step(yielded)


def _step(yielded: Any) -> Step:
    match yielded:
        case Intent():
            return Step(read_intent(yielded))
        case (Intent() as intent, value):
            return Step(read_intent(intent), Moved(_as_json(value)))
        case (None, value):
            return Step(None, Moved(_as_json(value)))
        case _:
            raise NotYieldableError(
                f"yielded {type(yielded).__name__}; yield an Intent, or (Intent, checkpoint)"
            )


def _as_json(value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError) as error:
        raise NotYieldableError(f"yielded a checkpoint that is no JSON: {error}") from error


def import_producers(modules: Sequence[str], faults: list[Fault]) -> list[PythonSource]:
    """Import modules and give the periodic producers that stand in them; what is wrong is added to faults."""
    here = str(Path.cwd())
    if modules and here not in sys.path:
        # As `python -m` does, and a console script does not: the application stands where it is run.
        sys.path.insert(0, here)
    found: dict[int, Periodic] = {}
    for name in modules:
        module = _import(name, faults)
        if module is None:
            continue
        declared = list(_declared(module))
        if not declared:
            message = "holds no periodic producer; declare one with @periodic from tocsin.periodic"
            faults.append(Fault(field=name, code="empty", message=message))
        for one in declared:
            found[id(one)] = one
            faults += _faults(name, one)
    return [PythonSource(one) for one in found.values()]


def _import(name: str, faults: list[Fault]) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - a module may raise anything, and its author must be told
        message = f"cannot be imported: {type(error).__name__}: {error}"
        faults.append(Fault(field=name, code="import", message=message))
        return None


def _declared(module: ModuleType) -> Iterator[Periodic]:
    yield from (value for value in vars(module).values() if isinstance(value, Periodic))


def _faults(module: str, declared: Periodic) -> Iterator[Fault]:
    where = f"{module}.{declared.body.__name__}"
    if not NAME.fullmatch(declared.name):
        yield Fault(field=where, code="name", message=f"name {declared.name!r} {WHAT_A_NAME_IS}")
    if message := schedule_fault(declared.schedule):
        yield Fault(field=where, code="schedule", message=message)
    if declared.schedule.catch_up not in {"last", "all", "none"}:
        message = f"catch_up must be last, all or none, not {declared.schedule.catch_up!r}"
        yield Fault(field=where, code="catch_up", message=message)
