"""How long each command takes to start: the interpreter and its imports, until the command is called."""

import asyncio
import sys
import time
from collections.abc import Sequence
from statistics import median

from bench.contract import Arena, Reading
from bench.goals import STARTUP_MS
from bench.process import ROOT, ProgramFailedError
from tocsin.cli.commands import COMMANDS

ROUNDS = 10
IMPORTS = "import tocsin.cli.commands, tocsin.cli.target, tocsin.cli.{}"


class StartUp:
    name = "startup"
    title = "Start-up"

    async def measure(self, arena: Arena) -> Sequence[Reading]:  # noqa: ARG002 - it needs no sandbox
        modules = sorted({source.module for source in COMMANDS.values()})
        took: dict[str, list[float]] = {module: [] for module in modules}
        for number in range(ROUNDS):
            # There and back again, so that nobody always comes right after the same other.
            for module in modules[:: -1 if number % 2 else 1]:
                took[module].append(await _start(module))
        return [
            Reading(
                f"{_commands(module)}: start",
                min(times) * 1000,
                "ms",
                STARTUP_MS,
                note=f"the median is {median(times) * 1000:,.0f}",
            )
            for module, times in took.items()
        ]


def _commands(module: str) -> str:
    return ", ".join(name for name, source in COMMANDS.items() if source.module == module)


async def _start(module: str) -> float:
    """Return how many seconds a process takes that only imports a command."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", IMPORTS.format(module), cwd=ROOT)
    if await process.wait():
        raise ProgramFailedError(f"tocsin.cli.{module} cannot be imported.")
    return time.perf_counter() - began
