"""`tocsin audit`."""

from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import msgspec
import typer

from tocsin.cli.access import over_http, with_connection
from tocsin.cli.filters import moment_of
from tocsin.cli.options import parse_moment
from tocsin.cli.output import AsJson, moment, print_entry, print_result

if TYPE_CHECKING:
    from tocsin.api.bodies import AuditEntry
    from tocsin.cli.remote import Remote
    from tocsin.store.audit import AuditFilter


def audit(
    action: Annotated[str | None, typer.Option(help="Only this action, such as toggle.off.")] = None,
    actor: Annotated[str | None, typer.Option(help="Only what this actor did.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only what was done to this subject.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="From this time on, e.g. 2h or 2030-01-31T03:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Before this time.")] = None,
    before: Annotated[
        UUID | None, typer.Option(metavar="ID", help="Only what is older than this entry.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List who did what to which subject, newest first."""
    from tocsin.api.bodies import audit_entry
    from tocsin.store.audit import NEWEST, AuditFilter, page

    wanted = AuditFilter(
        action=action,
        actor=actor,
        subject=subject,
        since=_parsed("--from", since),
        until=_parsed("--to", until),
    )
    entries = (
        _fetch(remote, wanted, before, limit)
        if (remote := over_http())
        else list(map(audit_entry, with_connection(page, wanted, before=before or NEWEST, limit=limit)))
    )
    if as_json or not entries:
        print_result(entries, as_json, "The audit has no such entry.")
        return
    for entry in entries:
        for line in _lines(entry):
            print_entry(line)


def _parsed(option: str, text: str | None) -> datetime | None:
    given = moment_of(text)
    return parse_moment(option, given) if given else None


def _fetch(remote: "Remote", wanted: "AuditFilter", before: UUID | None, limit: int) -> list["AuditEntry"]:
    from tocsin.api.bodies import AuditPage

    times = {"from": wanted.since, "to": wanted.until}
    query = {
        "action": wanted.action,
        "actor": wanted.actor,
        "subject": wanted.subject,
        **{name: at and at.isoformat() for name, at in times.items()},
    }
    entries = attrgetter("entries")
    return remote.list_pages(AuditPage, entries, "admin", "audit", before=before, limit=limit, **query)


def _lines(entry: "AuditEntry") -> Iterator[str]:
    yield f"{moment(entry.at)}  {entry.action}  {entry.subject}"
    yield f"  by {entry.actor}"
    if entry.details:
        yield "  " + ", ".join(f"{name}={_shown(value)}" for name, value in entry.details.items())


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
