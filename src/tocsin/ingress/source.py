"""Where intents come from besides the API."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from tocsin.domain.faults import Fault
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.write import Sourced
from tocsin.ingress.report import SourceReport

NOT_STORABLE = "not_storable"


class IntentSource(Protocol):
    """Carries intents from somewhere else into Tocsin, and reports how far behind it is."""

    report: SourceReport

    async def run(self, stop: asyncio.Event) -> None:
        """Carry intents until `stop` is set, then finish what is under way."""
        ...


class EntryDecoder(NamedTuple):
    """Turns the entries of a stream into intents: what the entries are is known to nobody else.

    `decode` takes the id of an entry, its fields, and the producer if it names none. It never raises: an
    entry that is no valid intent is `Unreadable`. `source` is what intents are recorded and counted under.
    """

    source: str
    decode: Callable[[str, Mapping[bytes, bytes], str], Sourced]


def not_storable(sourced: Sourced) -> Sourced:
    """Return an intent that the database does not take, as one to be refused."""
    fault = Fault(field="$", code=NOT_STORABLE, message="cannot be stored")
    refused = Unreadable(faults=[fault], content=sourced.content, org_id=sourced.intent.org_id)
    return msgspec.structs.replace(sourced, intent=refused)


def is_not_storable(sourced: Sourced) -> bool:
    """Return whether it is one of these."""
    return isinstance(sourced.intent, Unreadable) and sourced.intent.faults[0].code == NOT_STORABLE
