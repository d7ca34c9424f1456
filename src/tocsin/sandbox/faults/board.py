"""The faults in force, and what they mean for the request at hand."""

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tocsin.sandbox.faults.rules import (
    Chance,
    Fault,
    FaultPicture,
    Latency,
    Outage,
    Pass,
    Quota,
    Refuse,
    Script,
)


class UnknownFaultCodeError(ValueError):
    """A scripted refusal names a code that no provider of the sandbox answers with."""

    def __init__(self, code: str, known: Iterable[str]) -> None:
        super().__init__(f"code {code!r} is not known; use one of {', '.join(sorted(known))}")


class _Progress:
    """A script and the step it stands at."""

    __slots__ = ("position", "script")

    def __init__(self, script: Script) -> None:
        self.script = script
        self.position = 0

    def next(self) -> Fault:
        step = self.script.steps[self.position]
        self.position += 1
        if self.script.repeat:
            self.position %= len(self.script.steps)
        return step

    @property
    def ended(self) -> bool:
        return self.position >= len(self.script.steps)

    def to_come(self) -> Script:
        return self.script if self.script.repeat else Script(self.script.steps[self.position :])


class _Window:
    """Counts what a quota has let through in the present window; refused messages cost nothing."""

    __slots__ = ("_counts", "_ends", "quota")

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self._ends = 0.0
        self._counts: Counter[str] = Counter()

    def take(self, key: str, now: float) -> int | None:
        """Count one message, or say in how many seconds to come back."""
        if now >= self._ends:
            self._ends = now + self.quota.per_seconds
            self._counts.clear()
        if self._counts[key] < self.quota.limit:
            self._counts[key] += 1
            return None
        if self.quota.retry_after is not None:
            return self.quota.retry_after
        return math.ceil(self._ends - now)


class FaultBoard:
    """Where faults are put up, asked for and taken down."""

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
        """Go back to how the sandbox started: its first latency and no other fault."""
        # Random faults must repeat from run to run, so a seeded ordinary generator is the right one.
        self._random = random.Random(self._seed)  # noqa: S311
        self._scripts: dict[str, _Progress] = {}
        self._chances: tuple[Chance, ...] = ()
        self._latency = self._initial_latency
        self._project_window: _Window | None = None
        self._device_window: _Window | None = None
        self._outage: Outage | None = None
        self._outage_ends = math.inf

    def script(self, target: str, *steps: Fault, repeat: bool = False) -> None:
        """Say what befalls the next requests for a token, fid, topic or condition."""
        if not steps:
            raise ValueError("a script needs at least one step; use unscript to take one down")
        self._check(steps)
        self._scripts[target] = _Progress(Script(steps, repeat))

    def unscript(self, target: str) -> None:
        """Forget what was scripted for a target."""
        self._scripts.pop(target, None)

    def chances(self, *chances: Chance) -> None:
        """Replace the random faults; none are left when called with nothing."""
        self._check([chance.fault for chance in chances])
        self._chances = chances

    def latency(self, latency: Latency | None) -> None:
        """Set how long answers take."""
        self._latency = latency

    def project_quota(self, quota: Quota | None) -> None:
        """Limit the messages of each project."""
        self._project_window = _Window(quota) if quota else None

    def device_quota(self, quota: Quota | None) -> None:
        """Limit the messages to each device."""
        self._device_window = _Window(quota) if quota else None

    def outage(self, outage: Outage | None) -> None:
        """Begin or lift an outage."""
        self._outage = outage
        self._outage_ends = math.inf
        if outage and outage.seconds is not None:
            self._outage_ends = self._clock() + outage.seconds

    def picture(self) -> FaultPicture:
        """Show every fault in force; of a script, the steps still to come."""
        return FaultPicture(
            scripts={target: progress.to_come() for target, progress in self._scripts.items()},
            chances=self._chances,
            latency=self._latency,
            project_quota=self._project_window.quota if self._project_window else None,
            device_quota=self._device_window.quota if self._device_window else None,
            outage=self._present_outage(),
        )

    def messages_outage(self) -> Outage | None:
        """Tell the outage that refuses messages now."""
        outage = self._present_outage()
        return outage if outage and outage.covers != "tokens" else None

    def tokens_outage(self) -> Outage | None:
        """Tell the outage that refuses access tokens now."""
        outage = self._present_outage()
        return outage if outage and outage.covers != "messages" else None

    def take_project_quota(self, project: str) -> int | None:
        """Count a message of a project, or say in how many seconds to come back."""
        return self._project_window.take(project, self._clock()) if self._project_window else None

    def take_device_quota(self, target: str) -> int | None:
        """Count a message to a device, or say in how many seconds to come back."""
        return self._device_window.take(target, self._clock()) if self._device_window else None

    def befalls(self, target: str) -> Fault:
        """Take the next scripted step of a target, else throw the dice."""
        if self._scripts and (progress := self._scripts.get(target)):
            step = progress.next()
            if progress.ended:
                del self._scripts[target]
            return step
        for chance in self._chances:
            if self._random.random() < chance.probability:
                return chance.fault
        return Pass()

    def delay(self) -> float:
        """Tell how long the answer at hand takes."""
        if self._latency is None:
            return 0.0
        if self._latency.max_seconds is None:
            return self._latency.min_seconds
        return self._random.uniform(self._latency.min_seconds, self._latency.max_seconds)

    def _present_outage(self) -> Outage | None:
        if self._outage and self._clock() >= self._outage_ends:
            self._outage = None
        return self._outage

    def _check(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            if isinstance(fault, Refuse) and fault.code not in self.codes:
                raise UnknownFaultCodeError(fault.code, self.codes)
