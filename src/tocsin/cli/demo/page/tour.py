"""The guided tour: seven steps, each with one action whose real effects are awaited and shown."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec
import structlog

from tocsin.cli.demo.page.stage import Stage
from tocsin.domain.errors import TocsinError

Kind: TypeAlias = Literal["good", "warn", "bad", "info"]

LONGEST_STEP = 60.0

_log = structlog.stdlib.get_logger(__name__)


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was read from Tocsin or from a device."""

    text: str
    kind: Kind = "info"
    notification_id: UUID | None = None


class Run:
    """One run of a step: it writes down what it observes, and which page of the dashboard shows it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.state: Literal["running", "done", "failed"] = "running"
        self.observations: list[Observation] = []
        self.dashboard: str | None = None

    def note(self, text: str, kind: Kind = "info", *, notification_id: UUID | None = None) -> None:
        """Add an observation."""
        self.observations.append(Observation(text=text, kind=kind, notification_id=notification_id))


class TourStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step: what it is about, its one action, and pages of the dashboard that belong to it, by title."""

    title: str
    text: str
    action: str
    run: Callable[[Run], Awaitable[None]]
    pages: Mapping[str, str] = {}


class Tour:
    """Where a visitor is in the tour, and what the steps have shown so far."""

    def __init__(self, stage: Stage, steps: Sequence[TourStep]) -> None:
        self._stage = stage
        self.steps = steps
        self.current = 0
        self.runs: dict[int, Run] = {}
        self._running: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a step is under way."""
        return self._running is not None and not self._running.done()

    @property
    def newest(self) -> Observation | None:
        """The last observation of the current step."""
        run = self.runs.get(self.current)
        return run.observations[-1] if run and run.observations else None

    def open(self, number: int) -> None:
        """Show a step."""
        self.current = number

    def start(self, number: int) -> None:
        """Run a step, unless one is under way."""
        if self.is_running:
            return
        self.open(number)
        self.runs[number] = run = Run(self._stage)
        self._running = asyncio.create_task(_finish(self.steps[number], run))

    async def reset(self) -> None:
        """Stop what is under way and begin anew."""
        await self.aclose()
        self.runs.clear()
        self.current = 0

    async def aclose(self) -> None:
        """Stop what is under way."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)


async def _finish(step: TourStep, run: Run) -> None:
    try:
        async with asyncio.timeout(LONGEST_STEP):
            await step.run(run)
    except TimeoutError:
        run.note(f"Nothing more happened within {LONGEST_STEP:.0f} seconds. Try again.", "bad")
        run.state = "failed"
    except TocsinError as error:
        run.note(str(error), "bad")
        run.state = "failed"
    except Exception:  # noqa: BLE001 - the page goes on, and the cause is in the terminal
        _log.exception("tour step failed", step=step.title)
        run.note("The step failed; the terminal of the demo shows why.", "bad")
        run.state = "failed"
    else:
        run.state = "done"
