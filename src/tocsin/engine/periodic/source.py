"""What a run reads intents from: a Python generator or a scan of an application's database."""

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.periodic import Checkpoint
from tocsin.store.sources.progress import Scheduled
from tocsin.wire.faults import validation_fault

BATCH = 500
_NAMES = ("type", "idempotency_key")

_intents = msgspec.json.Decoder(Intent)


class SourceStep(NamedTuple):
    """One intent, the checkpoint once everything up to here is accepted, or both."""

    intent: Intent | Unreadable | None
    checkpoint: Any = msgspec.UNSET


class Source(Scheduled, frozen=True, kw_only=True):
    """A periodic producer that a worker can run, `batch` intents in one transaction.

    `producer` owns the idempotency keys of its intents. With `org_id`, all of them are for people of that
    organisation.
    """

    producer: str
    batch: int = BATCH
    org_id: str | None = None

    def steps(self, checkpoint: Checkpoint) -> AsyncGenerator[SourceStep]:
        """Yield what came since the checkpoint."""
        raise NotImplementedError


def read_intent(fields: Intent | dict[str, Any]) -> Intent | Unreadable:
    """Check the shape of an intent that was built in Python, and convert its values to those of JSON."""
    try:
        return _intents.decode(msgspec.json.encode(fields))
    except msgspec.ValidationError as error:
        fault = validation_fault(error)
    except (TypeError, ValueError, RecursionError) as error:
        fault = Fault(field="$", code="not_json", message=f"cannot be encoded as JSON: {error}")
    named = fields if isinstance(fields, dict) else {name: getattr(fields, name) for name in _NAMES}
    return Unreadable(
        faults=[fault],
        content=repr(fields),
        **{name: text for name in _NAMES if isinstance(text := named.get(name), str)},
    )
