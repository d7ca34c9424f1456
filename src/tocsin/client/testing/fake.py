"""A client that reaches no server and records what it is given."""

from typing import Any

from tocsin.client.blocking import Tocsin
from tocsin.client.concurrent import AsyncTocsin
from tocsin.client.testing.recording import AsyncRecording, Recorded, Recording
from tocsin.domain.faults import Fault

_NOWHERE = "http://tocsin.invalid"


class FakeTocsin(Tocsin):
    """Accepts what `Tocsin` accepts and records it, for an application's own tests."""

    def __init__(self) -> None:
        self._recording = Recording()
        super().__init__(_NOWHERE, "fake", retries=0, transport=self._recording)

    @property
    def sent(self) -> list[Recorded]:
        """Everything accepted so far, in order; queued intents once they are flushed."""
        return self._recording.notifications

    def only(self, **fields: Any) -> Recorded:
        """Return the one notification with these fields; fail the test if there is none or several."""
        found = self._with(fields)
        if len(found) != 1:
            raise self._unexpected(len(found), fields, "one")
        return found[0]

    def none(self, **fields: Any) -> None:
        """Fail the test if a notification with these fields was sent."""
        if found := self._with(fields):
            raise self._unexpected(len(found), fields, "none")

    def clear(self) -> None:
        """Delete everything recorded."""
        self._recording.clear()

    def be_unreachable(self, times: int = 1) -> None:
        """Make the next calls fail as if Tocsin could not be reached."""
        self._recording.lost_replies += times

    def refuse(self, field: str, message: str, *, code: str = "invalid", times: int = 1) -> None:
        """Refuse the next intents with a fault, as Tocsin refuses what its catalog does not allow."""
        self._recording.refusals.extend([Fault(field=field, code=code, message=message)] * times)

    def asynchronous(self) -> AsyncTocsin:
        """Return a client for event loops with the same recording."""
        return AsyncTocsin(_NOWHERE, "fake", retries=0, transport=AsyncRecording(self._recording))

    def _with(self, fields: dict[str, Any]) -> list[Recorded]:
        return [
            each for each in self.sent if all(getattr(each, name) == value for name, value in fields.items())
        ]

    def _unexpected(self, count: int, fields: dict[str, Any], wanted: str) -> AssertionError:
        named = " and ".join(f"{name}={value!r}" for name, value in fields.items()) or "any fields"
        lines = [f"  {each.type} to {each.audience}: {each.payload}" for each in self.sent]
        sent = "\n".join(["sent were:", *lines]) if lines else "nothing was sent"
        return AssertionError(f"{count} notifications have {named}, not {wanted}; {sent}")
