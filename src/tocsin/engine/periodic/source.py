"""What a run draws from: a Python generator or a scan of an application's database."""

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, Protocol

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.domain.timing.schedule import Schedule, ValueType
from tocsin.engine.accept.answers import Unreadable
from tocsin.periodic import Checkpoint
from tocsin.store.progress import ProgressKind


class Moved(msgspec.Struct, frozen=True):
    """The checkpoint once everything up to here is accepted; a JSON value."""

    value: Any


class Step(NamedTuple):
    """One intent, the checkpoint it moves to, or both."""

    intent: Intent | Unreadable | None
    moved: Moved | None = None


class Source(Protocol):
    """A periodic producer that a worker can run."""

    @property
    def name(self) -> str:
        """By which its progress is kept."""
        ...

    @property
    def kind(self) -> ProgressKind:
        """What it is made of."""
        ...

    @property
    def producer(self) -> str:
        """Whose idempotency keys its intents carry."""
        ...

    @property
    def schedule(self) -> Schedule:
        """When it runs."""
        ...

    @property
    def value_type(self) -> ValueType | None:
        """What its checkpoint is, if only one type will do."""
        ...

    @property
    def initial(self) -> Any:
        """The checkpoint before the first run; a JSON value."""
        ...

    @property
    def batch(self) -> int:
        """How many intents are accepted in one transaction."""
        ...

    def steps(self, checkpoint: Checkpoint) -> AsyncGenerator[Step]:
        """Give what came since the checkpoint."""
        ...


_intents = msgspec.json.Decoder(Intent)


def read_intent(fields: Intent | dict[str, Any]) -> Intent | Unreadable:
    """Check the shape of an intent that was put together in Python, and turn its values into JSON's."""
    try:
        raw = msgspec.json.encode(fields)
        return _intents.decode(raw)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        fault = Fault(
            field=place.strip("`").removeprefix("$").lstrip(".") or "$",
            code="invalid",
            message=message[:1].lower() + message[1:],
        )
    except (TypeError, ValueError, RecursionError) as error:
        fault = Fault(field="$", code="not_json", message=f"cannot be written as JSON: {error}")
    named = fields if isinstance(fields, dict) else {name: getattr(fields, name) for name in _NAMES}
    return Unreadable(
        faults=[fault],
        content=repr(fields),
        **{name: text for name in _NAMES if isinstance(text := named.get(name), str)},
    )


_NAMES = ("type", "idempotency_key")
