"""The options of a filter, shared by every command that selects deliveries."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from tocsin.api.http.bodies import find_faults
from tocsin.cli.access import server_time
from tocsin.cli.options import find_span
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import State, Status
from tocsin.domain.errors import FaultsError
from tocsin.wire.filters import DeliveryFilter, filter_faults

OfType = Annotated[str | None, typer.Option("--type", help="Notifications of this type.")]
OfProducer = Annotated[str | None, typer.Option(help="Notifications of this producer.")]
KeyPrefix = Annotated[str | None, typer.Option(help="Notifications whose idempotency key begins like this.")]
OfOrganisation = Annotated[
    str | None, typer.Option("--org", metavar="ORG", help="Notifications for this organisation.")
]
Since = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Accepted since, e.g. 2h or 2030-01-31T09:00:00Z."),
]
Until = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Accepted before, in the same form.")]


def read_filter(
    user: Annotated[str | None, typer.Option(help="Deliveries to this user.")] = None,
    type_: OfType = None,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help=f"Deliveries in this state: {', '.join(State)}.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="STATUS", help=f"The state as stream producers call it: {', '.join(Status)}."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="REASON", help=f"Why it was not sent: {', '.join(Reason)}.")
    ] = None,
    code: Annotated[str | None, typer.Option(help="Their last error code, e.g. UNAVAILABLE.")] = None,
    channel: Annotated[str | None, typer.Option(help="By this channel, e.g. push.")] = None,
    provider: Annotated[str | None, typer.Option(help="By this provider, e.g. fcm.")] = None,
    producer: OfProducer = None,
    key_prefix: KeyPrefix = None,
    org_id: OfOrganisation = None,
    since: Since = None,
    until: Until = None,
) -> DeliveryFilter:
    """Build a filter from the options; raise everything that is wrong with them."""
    fields = {
        "user": user,
        "type": type_,
        "state": state,
        "status": status,
        "reason": reason,
        "code": code,
        "channel": channel,
        "provider": provider,
        "producer": producer,
        "key_prefix": key_prefix,
        "org_id": org_id,
        "from": moment_of(since),
        "to": moment_of(until),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    faults = list(find_faults(given, DeliveryFilter))
    if not faults:
        made = msgspec.convert(given, DeliveryFilter)
        faults = filter_faults(made)
    if faults:
        raise FaultsError("The filter is invalid:", faults)
    return made


def moment_of(text: str | None) -> str | None:
    """Return a time as it is given, or the one a span such as 2h back from now by the server's clock."""
    ago = find_span(text or "")
    if ago is None:
        return text
    try:
        return (server_time() - ago).isoformat()
    except OverflowError:
        # Before the calendar begins: the first moment of it is refused like any other that is too far away.
        return datetime.min.replace(tzinfo=UTC).isoformat()
