"""`tocsin sources`."""

from typing import TYPE_CHECKING

from tocsin.cli.access import at_database_time, over_http
from tocsin.cli.inspect.queue import age, amount
from tocsin.cli.output import AsJson, moment, print_lines, print_rows

if TYPE_CHECKING:
    from tocsin.engine.inspect.sources import SourceRecord


def sources(as_json: AsJson = False) -> None:
    """Show how far behind the readers of outboxes, streams and queues are."""
    if remote := over_http():
        from tocsin.api.bodies import SourceList

        found = remote.call(SourceList, "GET", "admin", "sources").sources
    else:
        from tocsin.engine.inspect.sources import list_sources

        found = at_database_time(list_sources)
    empty = "Nothing was ever read: a relay reads the outboxes, streams and queues of the settings."
    print_rows(found, as_json, empty=empty, cells=_cells)
    if not as_json:
        print_lines(*(line for each in found if (line := _remark(each))))


def _cells(source: "SourceRecord") -> dict[str, object]:
    return {
        "source": f"{source.kind}:{source.name}",
        "state": source.state.replace("_", " "),
        "waiting": None if source.waiting is None else amount(source.waiting),
        "oldest": age(source.lag_seconds),
        "last progress": source.progressed_at,
        "checkpoint": source.checkpoint,
    }


def _remark(source: "SourceRecord") -> str | None:
    if source.last_error is None:
        return None
    return f"{source.kind}:{source.name}: at {moment(source.last_error_at)}: {source.last_error}"
