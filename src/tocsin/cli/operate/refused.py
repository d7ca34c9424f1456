"""`tocsin refused`."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import msgspec
import typer

from tocsin.cli.access import over_http, with_connection
from tocsin.cli.output import AsJson, moment, print_entry, print_result
from tocsin.domain.ids import LAST

if TYPE_CHECKING:
    from tocsin.api.bodies import Refused

MOST_FAULTS = 3

# Not parsed as JSON: what is long was cut when it was stored.
_ENTRY_ID = re.compile(r'\{"stream_entry_id":"([0-9]+-[0-9]+)"')


class _StoredFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of an intent, or the notification that has its idempotency key."""

    field: str = ""
    message: str = ""
    notification_id: str = ""

    def __str__(self) -> str:
        if self.notification_id:
            return f"idempotency_key: was used before, with other content, by {self.notification_id}"
        return f"{self.field}: {self.message}"


_faults = msgspec.json.Decoder(list[_StoredFault])


def refused(
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many, at most.")] = 20,
    before: Annotated[
        UUID | None, typer.Option(metavar="ID", help="Only what is older than this one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List refused intents and why, newest first; --json has their content."""
    from tocsin.api.bodies import RefusedPage, refused_entry
    from tocsin.store.sources.refused import list_recent

    rows = (
        remote.call(RefusedPage, "GET", "admin", "refused", limit=limit, before=before).refused
        if (remote := over_http())
        else list(map(refused_entry, with_connection(list_recent, before or LAST, limit)))
    )
    if as_json or not rows:
        print_result(rows, as_json, "No intent was refused.")
        return
    for row in rows:
        for line in _lines(row):
            print_entry(_printable(line))


def _lines(row: "Refused") -> Iterator[str]:
    """Describe a refused intent in lines of their own, which are copied and searched."""
    yield f"{moment(row.refused_at)}  {row.code}  {row.type or '-'}  from {row.producer}"
    from tocsin.ingress.mail_commands.decoder import MAIL_COMMANDS
    from tocsin.ingress.redis_streams.envelopes import INTENTS

    from_stream = row.source in {INTENTS.source, MAIL_COMMANDS.source}
    entry = _ENTRY_ID.match(row.content) if from_stream else None
    known = {"key": row.idempotency_key, "stream entry": entry and entry[1]}
    if shown := ", ".join(f"{name} {value}" for name, value in known.items() if value):
        yield f"  {shown}"
    faults = _faults.decode(row.faults)
    yield from (f"  {fault}" for fault in faults[:MOST_FAULTS])
    if len(faults) > MOST_FAULTS:
        yield f"  {len(faults) - MOST_FAULTS} more"


def _printable(line: str) -> str:
    """Escape what would move the cursor or end the line: a refused intent has any characters."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
