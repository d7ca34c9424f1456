"""The active faults of one stand-in, and their effect on each request."""

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from tocsin.sandbox.faults.rules import (
    ActiveFaults,
    Chance,
    Fault,
    Latency,
    Outage,
    Pass,
    Quota,
    Refuse,
    Script,
)

_NO_FAULT = Pass()


class UnknownFaultCodeError(ValueError):
    """A scripted refusal has a code that the provider does not use."""

    def __init__(self, code: str, known: Iterable[str]) -> None:
        super().__init__(f"code {code!r} is not known; use one of {', '.join(sorted(known))}")


class _Scripted(NamedTuple):
    """A script and the position of its next step."""

    script: Script
    position: int

    def remaining(self) -> Script:
        return self.script if self.script.repeat else Script(self.script.steps[self.position :])


class _QuotaWindow:
    """Counts the messages that a quota let through in the current window; refused ones are not counted."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self._ends = 0.0
        self._counts: Counter[str] = Counter()

    def take(self, key: str, now: float) -> int | None:
        """Count one message, or return in how many seconds to retry."""
        if now >= self._ends:
            self._ends = now + self.quota.per_seconds
            self._counts.clear()
        if self._counts[key] < self.quota.limit:
            self._counts[key] += 1
            return None
        if self.quota.retry_after is not None:
            return self.quota.retry_after
        return math.ceil(self._ends - now)


class FaultInjector:
    """Holds the faults of one stand-in and picks the one that each request meets."""

    def __init__(
        self,
        *,
        codes: frozenset[str],
        seed: int = 0,
        latency: Latency | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.codes = codes
        self._seed = seed
        self._clock = clock
        self._initial_latency = latency
        self.clear()

    def clear(self) -> None:
        """Remove every fault and restore the initial latency."""
        # Random faults must repeat from run to run, so a seeded ordinary generator is the right one.
        self._random = random.Random(self._seed)  # noqa: S311
        self._scripts: dict[str, _Scripted] = {}
        self._chances: tuple[Chance, ...] = ()
        self._latency = self._initial_latency
        self.project_quota(None)
        self.device_quota(None)
        self.outage(None)

    def script(self, target: str, *steps: Fault, repeat: bool = False) -> None:
        """Set the faults of the next requests for a token, fid, topic or condition."""
        if not steps:
            raise ValueError("a script needs at least one step; use unscript to remove one")
        self._check(steps)
        self._scripts[target] = _Scripted(Script(steps, repeat), 0)

    def unscript(self, target: str) -> None:
        """Remove the script of a target."""
        self._scripts.pop(target, None)

    def chances(self, *chances: Chance) -> None:
        """Replace the random faults; without arguments, remove them."""
        self._check([chance.fault for chance in chances])
        self._chances = chances

    def latency(self, latency: Latency | None) -> None:
        """Set how long answers take."""
        self._latency = latency

    def project_quota(self, quota: Quota | None) -> None:
        """Limit the messages of each project."""
        self._project_window = _QuotaWindow(quota) if quota else None

    def device_quota(self, quota: Quota | None) -> None:
        """Limit the messages to each device."""
        self._device_window = _QuotaWindow(quota) if quota else None

    def outage(self, outage: Outage | None) -> None:
        """Begin or end an outage."""
        self._outage = outage
        self._outage_ends = math.inf
        if outage and outage.seconds is not None:
            self._outage_ends = self._clock() + outage.seconds

    def active(self) -> ActiveFaults:
        """Return every active fault; of a script, the remaining steps."""
        return ActiveFaults(
            scripts={target: scripted.remaining() for target, scripted in self._scripts.items()},
            chances=self._chances,
            latency=self._latency,
            project_quota=self._project_window.quota if self._project_window else None,
            device_quota=self._device_window.quota if self._device_window else None,
            outage=self._current_outage(),
        )

    def outage_of(self, what: Literal["messages", "tokens"]) -> Outage | None:
        """Return the outage that refuses messages or access tokens now."""
        outage = self._outage and self._current_outage()
        return outage if outage and outage.covers in {what, "everything"} else None

    def take_project_quota(self, project: str) -> int | None:
        """Count a message of a project, or return in how many seconds to retry."""
        window = self._project_window
        return window.take(project, self._clock()) if window else None

    def take_device_quota(self, target: str) -> int | None:
        """Count a message to a device, or return in how many seconds to retry."""
        window = self._device_window
        return window.take(target, self._clock()) if window else None

    def next_fault(self, target: str) -> Fault:
        """Return the next scripted step of a target, otherwise a random fault or none."""
        if self._scripts and (scripted := self._scripts.get(target)):
            steps, following = scripted.script.steps, scripted.position + 1
            if following < len(steps) or scripted.script.repeat:
                self._scripts[target] = _Scripted(scripted.script, following % len(steps))
            else:
                del self._scripts[target]
            return steps[scripted.position]
        for chance in self._chances:
            if self._random.random() < chance.probability:
                return chance.fault
        return _NO_FAULT

    def delay(self) -> float:
        """Return how many seconds the current answer takes."""
        if self._latency is None:
            return 0.0
        if self._latency.max_seconds is None:
            return self._latency.min_seconds
        return self._random.uniform(self._latency.min_seconds, self._latency.max_seconds)

    def _current_outage(self) -> Outage | None:
        if self._outage and self._clock() >= self._outage_ends:
            self._outage = None
        return self._outage

    def _check(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            if isinstance(fault, Refuse) and fault.code not in self.codes:
                raise UnknownFaultCodeError(fault.code, self.codes)
