"""An intent from the words of a command line."""

import uuid
from typing import Annotated, Any

import msgspec
import typer

from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent

Kind = Annotated[str, typer.Argument(metavar="TYPE", help="A type of the catalog, e.g. new_customer.")]
Users = Annotated[list[str] | None, typer.Option("--user", help="A user id; may be given several times.")]
Emails = Annotated[list[str] | None, typer.Option("--email", help="An address; may be given several times.")]
Admins = Annotated[bool, typer.Option("--admins", help="Send to the type's administrators.")]
PayloadText = Annotated[str, typer.Option("--payload", help="The payload as JSON.")]
Version = Annotated[int | None, typer.Option(help="The payload's version; the newest if left out.")]
IdempotencyKey = Annotated[str | None, typer.Option("--key", help="The idempotency key; made if left out.")]
SendAt = Annotated[str | None, typer.Option(help="When, as 2030-01-31T09:00:00+00:00.")]
SendAtLocal = Annotated[
    str | None, typer.Option(help="When by each person's own clock, as 2030-01-31T09:00:00.")
]
TimeToLive = Annotated[int | None, typer.Option("--ttl-seconds", help="Give up after this long.")]
CollapseKey = Annotated[str | None, typer.Option(help="Replaces an older one that waits.")]
Producer = Annotated[str, typer.Option(help="In whose name.")]


def read_intent(
    kind: str, *, users: list[str] | None, emails: list[str] | None, admins: bool, payload: str, **rest: Any
) -> Intent:
    """Put an intent together, or say what cannot be read."""
    fields = {
        "type": kind,
        "audience": {"users": users, "emails": emails, "admins": admins or None},
        "payload": _read_payload(payload),
        **rest,
    }
    fields["idempotency_key"] = rest.get("idempotency_key") or f"cli-{uuid.uuid4()}"
    try:
        return msgspec.convert(fields, Intent, strict=False)
    except msgspec.ValidationError as error:
        said, _, where = str(error).partition(" - at `$.")
        fault = Fault(field=where.rstrip("`") or "intent", code="invalid", message=said.replace("`", ""))
        raise FaultsError("The intent cannot be read:", [fault]) from error


def _read_payload(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        fault = Fault(field="--payload", code="invalid", message=f"is not a JSON object: {error}")
        raise FaultsError("The intent cannot be read:", [fault]) from error
