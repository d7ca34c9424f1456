"""A notification's story, in the order it happened."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from tocsin.cli.output import clock_time, console, moment
from tocsin.domain.delivery import MEANING, WAITING, State
from tocsin.domain.reasons import MEANING as REASONS
from tocsin.domain.reasons import Reason
from tocsin.engine.show import Shown, ShownDelivery

COLOURS = {
    State.SENT: "green",
    State.DELIVERED: "green",
    State.SKIPPED: "yellow",
    State.CANCELLED: "yellow",
    State.EXPIRED: "yellow",
    State.RETRYING: "yellow",
    State.REJECTED: "red",
    State.GONE: "red",
    State.DEAD: "red",
}


class Event(NamedTuple):
    """One thing that happened."""

    at: datetime
    what: str
    detail: str


def print_timeline(shown: Shown) -> None:
    """Print what happened and where each delivery stands."""
    console.print(f"[bold]{shown.type}[/] v{shown.version}  {shown.notification_id}")
    console.print(f"producer {shown.producer}, key {shown.idempotency_key}, {moment(shown.accepted_at)}")
    console.print()
    for event in sorted(_events(shown), key=lambda event: event.at):
        elapsed = (event.at - shown.accepted_at).total_seconds() * 1000
        console.print(f"  {clock_time(event.at)}  {elapsed:>+9.1f} ms  {event.what}  {event.detail}")
    console.print()
    for delivery in shown.deliveries:
        _print_delivery(delivery)
    if shown.truncated:
        console.print(f"  … and more: only the first {len(shown.deliveries)} are shown")


def is_settled(shown: Shown) -> bool:
    """Tell whether nothing of a notification waits any more."""
    return all(delivery.state not in WAITING for delivery in shown.deliveries)


def _events(shown: Shown) -> Iterator[Event]:
    yield Event(shown.accepted_at, "accepted ", f"{len(shown.deliveries)} deliveries")
    for delivery in shown.deliveries:
        for attempt in delivery.attempts:
            yield Event(attempt.at, f"{attempt.outcome:<9}", f"{delivery.route_id}  {attempt.code}")
        if delivery.settled_at:
            yield Event(delivery.settled_at, f"{delivery.state:<9}", delivery.route_id)


def _print_delivery(delivery: ShownDelivery) -> None:
    colour = COLOURS.get(delivery.state, "default")
    console.print(f"  [{colour}]{delivery.state}[/] {delivery.route_id}", _device(delivery), soft_wrap=True)
    console.print(f"    {_explanation(delivery)}", soft_wrap=True)


def _device(delivery: ShownDelivery) -> str:
    return f"device {delivery.device_id}" if delivery.device_id else ""


def _explanation(delivery: ShownDelivery) -> str:
    if delivery.reason:
        return f"{delivery.reason}: {REASONS[Reason(delivery.reason)]}"
    if delivery.state in WAITING:
        return f"{MEANING[delivery.state]}; due {moment(delivery.due_at)}"
    if delivery.state is State.SENT:
        return f"taken by {delivery.provider} as {delivery.provider_message_id}"
    said = f"{MEANING[delivery.state]}: {delivery.last_error_code or 'no code'}"
    return f"{said} ({delivery.hint})" if delivery.hint else said
