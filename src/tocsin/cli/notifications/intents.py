"""An intent from the words of a command line, the same for every command that takes one."""

import inspect
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Concatenate

import msgspec
import typer

from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent

Producer = Annotated[str, typer.Option(help="In whose name.")]


def read_intent(
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="A type of the catalog, e.g. new_customer.")],
    user: Annotated[list[str] | None, typer.Option(help="A user id; may be given several times.")] = None,
    email: Annotated[list[str] | None, typer.Option(help="An address; may be given several times.")] = None,
    admins: Annotated[bool, typer.Option("--admins", help="Send to the type's administrators.")] = False,
    topic: Annotated[str | None, typer.Option(help="Send to every device that follows a topic.")] = None,
    condition: Annotated[
        str | None, typer.Option(help="Send to devices by their topics, e.g. \"'a' in topics\".")
    ] = None,
    payload: Annotated[str, typer.Option(help="The payload as JSON.")] = "{}",
    version: Annotated[
        int | None, typer.Option(help="The payload's version; the newest if left out.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The idempotency key; made if left out.")] = None,
    send_at: Annotated[str | None, typer.Option(help="When, as 2030-01-31T09:00:00+00:00.")] = None,
    send_at_local: Annotated[
        str | None, typer.Option(help="When by each person's own clock, as 2030-01-31T09:00:00.")
    ] = None,
    ttl_seconds: Annotated[int | None, typer.Option(help="Give up after this long.")] = None,
    collapse_key: Annotated[str | None, typer.Option(help="Replaces an older one that waits.")] = None,
) -> Intent:
    """Put an intent together, or say what cannot be read."""
    fields = {
        "type": kind,
        "audience": {
            "users": user,
            "emails": email,
            "admins": admins or None,
            "topic": topic,
            "condition": condition,
        },
        "payload": _read_payload(payload),
        "version": version,
        "idempotency_key": key or f"cli-{uuid.uuid4()}",
        "send_at": send_at,
        "send_at_local": send_at_local,
        "ttl_seconds": ttl_seconds,
        "collapse_key": collapse_key,
    }
    try:
        return msgspec.convert(fields, Intent, strict=False)
    except msgspec.ValidationError as error:
        said, _, where = str(error).partition(" - at `$.")
        fault = Fault(field=where.rstrip("`") or "intent", code="invalid", message=said.replace("`", ""))
        raise FaultsError("The intent cannot be read:", [fault]) from error


def takes_intent(command: Callable[Concatenate[Intent, ...], None]) -> Callable[..., None]:
    """Let a command be called with the words of an intent, and hand it the intent they make."""
    words = inspect.signature(read_intent).parameters
    _, *own = inspect.signature(command).parameters.values()

    def called(**given: Any) -> None:
        intent = read_intent(**{name: given.pop(name) for name in words})
        command(intent, **given)

    called.__doc__ = command.__doc__
    # Typer reads here which arguments and options there are.
    called.__dict__["__signature__"] = inspect.Signature([*words.values(), *own])
    return called


def _read_payload(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        fault = Fault(field="--payload", code="invalid", message=f"is not a JSON object: {error}")
        raise FaultsError("The intent cannot be read:", [fault]) from error
