"""The options of an intent, shared by every command that takes one."""

import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from tocsin.cli.output import fail
from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Intent
from tocsin.wire.faults import validation_fault

OWN_PRODUCER = "cli"
Producer = Annotated[str, typer.Option(help="The producer to accept it for; over HTTP, that of the API key.")]


def check_producer(producer: str) -> None:
    """Fail if a producer is given over HTTP."""
    if producer != OWN_PRODUCER:
        fail("--producer cannot be given over HTTP: the API key says who it is.", code=2)


def read_intent(
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="A type of the catalog, e.g. new_customer.")],
    user: Annotated[list[str] | None, typer.Option(help="A user id; may be given several times.")] = None,
    email: Annotated[list[str] | None, typer.Option(help="An address; may be given several times.")] = None,
    admins: Annotated[bool, typer.Option("--admins", help="Send to the type's administrators.")] = False,
    topic: Annotated[str | None, typer.Option(help="Send to every device subscribed to a topic.")] = None,
    condition: Annotated[
        str | None, typer.Option(help="Send to devices by their topics, e.g. \"'a' in topics\".")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Send to the users who have this attribute, e.g. plan=pro; all that are given must match.",
        ),
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--everyone", help="Send to everyone in the directory or with a device.")
    ] = False,
    segment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Send to the people of a segment; see `tocsin segments`."),
    ] = None,
    payload: Annotated[str, typer.Option(help="The payload as JSON.")] = "{}",
    version: Annotated[
        int | None, typer.Option(help="The payload's version; the newest if left out.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The idempotency key; generated if left out.")] = None,
    send_at: Annotated[
        str | None, typer.Option(help="Send at this time, e.g. 2030-01-31T09:00:00+00:00.")
    ] = None,
    send_at_local: Annotated[
        str | None,
        typer.Option(help="Send at this time of each person's own clock, e.g. 2030-01-31T09:00:00."),
    ] = None,
    ttl_seconds: Annotated[int | None, typer.Option(help="Expire after this many seconds.")] = None,
    collapse_key: Annotated[
        str | None, typer.Option(help="Replace an older waiting notification with this key.")
    ] = None,
    locale: Annotated[
        str | None, typer.Option(help="The language for recipients of whom no other is known, e.g. tr-TR.")
    ] = None,
    org_id: Annotated[
        str | None,
        typer.Option("--org", metavar="ORG", help="Refuse recipients who are not of this organisation."),
    ] = None,
) -> Intent:
    """Build an intent from the options; raise what is wrong with them."""
    if key is not None and _is_api_key(key):
        # It would be stored, and shown to everybody who may see the notification.
        fail(
            "--key after the command is the idempotency key, and this is an API key. Give that before the "
            "command, as in `tocsin --server URL --key KEY send …`, or set TOCSIN_KEY.",
            code=2,
        )
    fields = {
        "type": type_,
        "audience": {
            "users": user,
            "emails": email,
            "admins": admins or None,
            "topic": topic,
            "condition": condition,
            "attributes": _read_attributes(attribute) if attribute else None,
            "everyone": everyone or None,
            "segment": segment,
        },
        "payload": _read_payload(payload),
        "version": version,
        "idempotency_key": key or f"cli-{uuid.uuid4()}",
        "send_at": send_at,
        "send_at_local": send_at_local,
        "ttl_seconds": ttl_seconds,
        "collapse_key": collapse_key,
        "locale": locale,
        "org_id": org_id,
    }
    try:
        return msgspec.convert(fields, Intent, strict=False)
    except msgspec.ValidationError as error:
        raise FaultsError("The intent is invalid:", [validation_fault(error, "intent")]) from error


def _is_api_key(text: str) -> bool:
    from tocsin.api.auth.api_keys import is_api_key

    return is_api_key(text)


def _read_attributes(given: Sequence[str]) -> dict[str, Any]:
    """Parse `NAME=VALUE`: a value is JSON, or else a text as it stands."""
    attributes: dict[str, Any] = {}
    faults = []
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or name in attributes:
            message = f"{text[:80]!r} is not NAME=VALUE" if not separator else f"{name[:80]!r} is given twice"
            faults.append(Fault(field="--attribute", code="invalid", message=message))
            continue
        try:
            attributes[name] = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            attributes[name] = value
    if faults:
        raise FaultsError("The intent is invalid:", faults)
    return attributes


def _read_payload(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        fault = Fault(field="--payload", code="invalid", message=f"is not a JSON object: {error}")
        raise FaultsError("The intent is invalid:", [fault]) from error
