"""Printing a notification: its events in order, and its deliveries."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from rich.markup import escape

from tocsin.cli.output import clock_time, console, moment
from tocsin.domain.delivery.reasons import MEANING as REASONS
from tocsin.domain.delivery.states import MEANING, WAITING, State
from tocsin.wire.notifications import Delivery, Notification, Step

# By text: a newer server may have states and reasons that are not known here.
COLOURS: Mapping[str, str] = {
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
_STATES = {str(state): meaning for state, meaning in MEANING.items()}
_REASONS = {str(reason): meaning for reason, meaning in REASONS.items()}


class Event(NamedTuple):
    """One event of a notification."""

    at: datetime
    what: str
    detail: str


def print_timeline(shown: Notification) -> None:
    """Print the events of a notification and the state of each delivery."""
    console.print(f"[bold]{escape(shown.type)}[/] v{shown.version}  {shown.notification_id}")
    if shown.external_id:
        reference = f", reference {escape(shown.reference)}" if shown.reference else ""
        console.print(f"stream entry {escape(shown.external_id)}{reference}", soft_wrap=True)
    key = escape(shown.idempotency_key)
    console.print(
        f"producer {escape(shown.producer)}, key {key}, {moment(shown.accepted_at)}", soft_wrap=True
    )
    console.print()
    for event in sorted(_events(shown), key=lambda event: event.at):
        elapsed = (event.at - shown.accepted_at).total_seconds() * 1000
        console.print(f"  {clock_time(event.at)}  {elapsed:>+9.1f} ms  {event.what}  {escape(event.detail)}")
    console.print()
    for delivery in shown.deliveries:
        _print_delivery(delivery)
    if shown.pruned_at:
        console.print(
            f"  its content and deliveries were pruned {moment(shown.pruned_at)}; its key is still kept"
        )
    if shown.truncated:
        console.print(f"  … and more: only the first {len(shown.deliveries)} are shown")


def print_steps(steps: Sequence[Step], *, passed: bool) -> None:
    """Print the steps of a decision; rules that passed only if `passed`."""
    for step in steps:
        if step.result == "pass" and not passed:
            continue
        until = f", until {moment(step.until)}" if step.until else ""
        times = f", {step.count} times" if step.count > 1 else ""
        text = f"    {clock_time(step.at)}  {step.result:<4}  {step.rule}: {step.detail}{until}{times}"
        console.print(text, markup=False, soft_wrap=True)


def is_settled(shown: Notification) -> bool:
    """Return whether no delivery of a notification waits."""
    return all(delivery.state not in WAITING for delivery in shown.deliveries)


def _events(shown: Notification) -> Iterator[Event]:
    count = len(shown.deliveries)
    yield Event(shown.accepted_at, "accepted ", f"{count} {'delivery' if count == 1 else 'deliveries'}")
    for delivery in shown.deliveries:
        for attempt in delivery.attempts:
            if attempt.outcome == delivery.state:
                continue
            yield Event(attempt.at, f"{attempt.outcome:<9}", f"{delivery.route_id}  {attempt.code}")
        for step in delivery.decisions:
            if step.rule == "replay":
                yield Event(step.at, "replayed ", delivery.route_id)
        if delivery.settled_at:
            yield Event(delivery.settled_at, f"{delivery.state:<9}", delivery.route_id)


def _print_delivery(delivery: Delivery) -> None:
    colour = COLOURS.get(delivery.state, "default")
    device = f" device {delivery.device_id}" if delivery.device_id else ""
    route = escape(delivery.route_id)
    console.print(f"  [{colour}]{delivery.state}[/] {route}{device}", soft_wrap=True)
    console.print(f"    {_explanation(delivery)}", markup=False, soft_wrap=True)
    if delivery.last_error and delivery.state not in {State.SENT, State.DELIVERED}:
        console.print(f"    {delivery.last_error}", markup=False, soft_wrap=True)
    if delivery.attempts_truncated:
        text = f"only the newest {len(delivery.attempts)} failed attempts are shown"
        console.print(f"    {text}", markup=False, soft_wrap=True)
    print_steps(delivery.decisions, passed=False)


def _explanation(delivery: Delivery) -> str:
    state = delivery.state
    if delivery.reason:
        meaning = _REASONS.get(delivery.reason)
        return f"{delivery.reason}: {meaning}" if meaning else delivery.reason
    if state in WAITING:
        held = f"held by {delivery.held_by}" if delivery.held_by else None
        due = f"due {moment(delivery.due_at)}" if delivery.due_at else None
        waiting_for = f"waits: {delivery.waiting_for}" if delivery.waiting_for else None
        return "; ".join(filter(None, (_STATES[state], held, due, waiting_for)))
    if state == State.SENT:
        return f"accepted by {delivery.provider} as {delivery.provider_message_id}"
    text = f"{_STATES.get(state, state)}: {delivery.last_error_code or 'no code'}"
    return f"{text} ({delivery.hint})" if delivery.hint else text
