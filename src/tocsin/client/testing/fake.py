"""A client that reaches no server and remembers what it was given."""

from typing import Any

from tocsin.client.blocking import Tocsin
from tocsin.client.concurrent import AsyncTocsin
from tocsin.client.exchange import Lost, Reply, Request
from tocsin.client.testing.in_memory import InMemory
from tocsin.client.testing.notifications import Recorded
from tocsin.domain.faults import Fault

_NOWHERE = "http://tocsin.invalid"


class _Here:
    """Carries requests no further than this process."""

    def __init__(self, memory: InMemory) -> None:
        self._memory = memory

    def carry(self, request: Request) -> Reply | Lost:
        return self._memory.answer(request)

    def close(self) -> None:
        """Hold nothing."""


class _HereAsync:
    """Carries requests no further than this process, for an event loop."""

    def __init__(self, memory: InMemory) -> None:
        self._memory = memory

    async def carry(self, request: Request) -> Reply | Lost:
        return self._memory.answer(request)

    async def close(self) -> None:
        """Hold nothing."""


class FakeTocsin(Tocsin):
    """Takes what `Tocsin` takes, answers as it would, and remembers: for an application's own tests."""

    def __init__(self) -> None:
        self._memory = InMemory()
        super().__init__(_NOWHERE, "fake", retries=0, transport=_Here(self._memory))

    @property
    def sent(self) -> list[Recorded]:
        """Everything accepted so far, in order; what is queued, when it was flushed."""
        return self._memory.notifications.recorded

    def only(self, **fields: Any) -> Recorded:
        """Give the one notification with these fields, such as its type; anything but one fails the test."""
        found = self._with(fields)
        if len(found) != 1:
            raise AssertionError(f"{len(found)} notifications have {_said(fields)}, not one; {self._story()}")
        return found[0]

    def none(self, **fields: Any) -> None:
        """Fail the test if a notification with these fields was sent."""
        if found := self._with(fields):
            raise AssertionError(
                f"{len(found)} notifications have {_said(fields)}, not none; {self._story()}"
            )

    def clear(self) -> None:
        """Forget everything."""
        self._memory.clear()

    def be_unreachable(self, times: int = 1) -> None:
        """Let the next calls fail as they do when Tocsin cannot be reached."""
        self._memory.losses += times

    def refuse(self, field: str, message: str, *, code: str = "invalid", times: int = 1) -> None:
        """Let the next intents be refused with a fault, as Tocsin refuses what its catalog does not allow."""
        self._memory.notifications.refusals.extend([Fault(field=field, code=code, message=message)] * times)

    def asynchronous(self) -> AsyncTocsin:
        """Give a client for event loops that remembers in the same place."""
        return AsyncTocsin(_NOWHERE, "fake", retries=0, transport=_HereAsync(self._memory))

    def _with(self, fields: dict[str, Any]) -> list[Recorded]:
        return [
            each for each in self.sent if all(getattr(each, name) == value for name, value in fields.items())
        ]

    def _story(self) -> str:
        lines = [f"  {each.type} to {each.audience}: {each.payload}" for each in self.sent]
        return "\n".join(["sent were:", *lines]) if lines else "nothing was sent"


def _said(fields: dict[str, Any]) -> str:
    return " and ".join(f"{name}={value!r}" for name, value in fields.items()) or "any fields"
