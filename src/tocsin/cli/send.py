"""`tocsin send`."""

import uuid
from typing import Annotated, Any, assert_never

import msgspec
import typer

from tocsin.cli.access import with_pool
from tocsin.cli.output import AsJson, complain, console, print_json
from tocsin.compose import known_toggles, planner, read_catalog
from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.engine.accept import Acceptor
from tocsin.engine.answers import Accepted, Answer, Conflict, Duplicate, Invalid
from tocsin.engine.clock import utc_now
from tocsin.settings import Settings
from tocsin.store.pool import Pool


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("send")(send)


def send(
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="A type of the catalog, e.g. new_customer.")],
    user: Annotated[list[str] | None, typer.Option(help="A user id; may be given several times.")] = None,
    email: Annotated[list[str] | None, typer.Option(help="An address; may be given several times.")] = None,
    admins: Annotated[bool, typer.Option(help="Send to the type's administrators.")] = False,
    payload: Annotated[str, typer.Option(help="The payload as JSON.")] = "{}",
    version: Annotated[
        int | None, typer.Option(help="The payload's version; the newest if left out.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The idempotency key; made if left out.")] = None,
    send_at: Annotated[str | None, typer.Option(help="When, as 2030-01-31T09:00:00+00:00.")] = None,
    ttl_seconds: Annotated[int | None, typer.Option(help="Give up after this long.")] = None,
    collapse_key: Annotated[str | None, typer.Option(help="Replaces an older one on the phone.")] = None,
    producer: Annotated[str, typer.Option(help="In whose name.")] = "cli",
    as_json: AsJson = False,
) -> None:
    """Hand in one notification, straight into the database."""
    fields: dict[str, Any] = {
        "type": kind,
        "version": version,
        "audience": {"users": user, "emails": email, "admins": admins or None},
        "payload": _read_payload(payload),
        "idempotency_key": key or f"cli-{uuid.uuid4()}",
        "send_at": send_at,
        "ttl_seconds": ttl_seconds,
        "collapse_key": collapse_key,
    }
    try:
        intent = msgspec.convert(fields, Intent, strict=False)
    except msgspec.ValidationError as error:
        fault = Fault(field="intent", code="invalid", message=str(error))
        raise FaultsError("The intent cannot be read:", [fault]) from error
    _tell(with_pool(lambda settings, pool: _accept(settings, pool, producer, intent)), as_json)


def _read_payload(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        fault = Fault(field="--payload", code="invalid", message=f"is not a JSON object: {error}")
        raise FaultsError("The intent cannot be read:", [fault]) from error


async def _accept(settings: Settings, pool: Pool, producer: str, intent: Intent) -> Answer:
    async with known_toggles(settings, pool) as toggles:
        accepting = Acceptor(pool, planner(settings, read_catalog(settings), toggles), utc_now)
        return (await accepting.accept(producer, [intent], source="cli"))[0]


def _tell(answer: Answer, as_json: bool) -> None:
    match answer:
        case Accepted(notification_id=notification_id):
            status = "accepted"
        case Duplicate(notification_id=notification_id):
            status = "duplicate"
        case Conflict(notification_id=notification_id):
            complain(f"This key belongs to other content, accepted as {notification_id}.")
            raise typer.Exit(1)
        case Invalid(faults=faults):
            raise FaultsError("The intent was refused:", faults)
        case _:
            assert_never(answer)
    if as_json:
        print_json({"notification_id": notification_id, "status": status})
    else:
        console.print(f"{status} {notification_id}")
        console.print(f"See what becomes of it: tocsin show {notification_id}")
