"""Printing a notification as a tree: its deliveries, and the events of each in order."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rich.text import Text
from rich.tree import Tree

from tocsin.cli.output import clock_time, console, moment, plural, print_entry, print_tree
from tocsin.domain.delivery.reasons import MEANING as REASONS
from tocsin.domain.delivery.states import MEANING, WAITING, State
from tocsin.wire.notifications import Broadcast, Delivery, Notification, Step

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
EVENT_COLOURS = {
    **COLOURS,
    "hold": "yellow",
    "skip": "yellow",
    "retry": "yellow",
    "defer": "yellow",
    "opened": "green",
}
_TAKEN = {State.SENT, State.DELIVERED}
# Beyond it, milliseconds are hard to read.
LONG = timedelta(seconds=10)
_STATES = {str(state): meaning for state, meaning in MEANING.items()}
_REASONS = {str(reason): meaning for reason, meaning in REASONS.items()}


class Event(NamedTuple):
    """One event of a delivery, in the colour of its kind."""

    at: datetime
    kind: str
    detail: str
    colour: str = "default"


def print_timeline(shown: Notification) -> None:
    """Print a notification as a tree of its deliveries, each with its events in order."""
    print_entry(Text.assemble((shown.type, "bold"), f" v{shown.version}  {shown.notification_id}"))
    if shown.external_id:
        reference = f", reference {shown.reference}" if shown.reference else ""
        kind = "message" if shown.producer.startswith("sqs:") else "stream entry"
        print_entry(f"{kind} {shown.external_id}{reference}")
    print_entry(f"producer {shown.producer}, key {shown.idempotency_key}, {moment(shown.accepted_at)}")
    if shown.org_id is not None:
        print_entry(f"organisation {shown.org_id}")
    console.print()
    # A broadcast may have millions, which are not counted to show it; its progress counts the people.
    count = plural(len(shown.deliveries), "delivery", "deliveries", or_more=shown.truncated)
    tree = Tree(
        Text.assemble(("accepted", "bold"), f"  {clock_time(shown.accepted_at)}  {count}"), guide_style="dim"
    )
    if shown.broadcast is not None:
        tree.add(Text(_progress(shown.broadcast)))
    for delivery in shown.deliveries:
        _add_delivery(tree, delivery, shown.accepted_at)
    if shown.pruned_at:
        tree.add(f"its content and deliveries were pruned {moment(shown.pruned_at)}; its key is still kept")
    if shown.truncated:
        tree.add(f"… and more: only the first {len(shown.deliveries):,} are shown")
    print_tree(tree)


def _progress(broadcast: Broadcast) -> str:
    """Describe how far a broadcast is."""
    of = "" if broadcast.total is None else f" of {broadcast.total:,}"
    text = f"broadcast {broadcast.state}: {broadcast.expanded:,}{of} people have their deliveries"
    if broadcast.waiting_for:
        return f"{text}; waits: {broadcast.waiting_for}"
    begins = broadcast.next_at is not None and broadcast.total is None
    return f"{text}; begins {moment(broadcast.next_at)}" if begins else text


def print_steps(steps: Sequence[Step], *, passed: bool) -> None:
    """Print the steps of a decision; rules that passed only if `passed`."""
    for step in steps:
        if step.result == "pass" and not passed:
            continue
        text = f"    {clock_time(step.at)}  {step.result:<4}  {_describe(step)}"
        console.print(text, markup=False, soft_wrap=True)


def is_settled(shown: Notification) -> bool:
    """Return whether no delivery of a notification waits, and none is to come."""
    if shown.broadcast is not None and shown.broadcast.state == "expanding":
        return False
    return all(delivery.state not in WAITING for delivery in shown.deliveries)


def _add_delivery(tree: Tree, delivery: Delivery, accepted_at: datetime) -> None:
    device = f"  device {delivery.device_id}" if delivery.device_id else ""
    colour = _colour(delivery.state)
    branch = tree.add(
        Text.assemble((delivery.state, f"bold {colour}"), f" {delivery.route_id}", (device, "dim"))
    )
    if delivery.attempts_truncated:
        branch.add(Text(f"only the newest {len(delivery.attempts)} failed attempts are shown", "dim"))
    for event in sorted(_events(delivery), key=lambda event: event.at):
        elapsed = _elapsed(event.at - accepted_at)
        branch.add(
            Text.assemble((f"{elapsed:>11}  ", "dim"), (event.kind, event.colour), f"  {event.detail}")
        )
    if delivery.state == State.DELIVERED and not delivery.receipts:
        # The moment of a provider's receipt is not kept.
        branch.add(
            Text.assemble(" " * 13, ("delivered", "green"), f"  confirmed by {delivery.provider}'s receipt")
        )
    if delivery.settled_at is None:
        branch.add(Text(_explanation(delivery)))
    if delivery.last_error and delivery.state not in _TAKEN:
        branch.add(Text(delivery.last_error, "dim"))


def _events(delivery: Delivery) -> Iterator[Event]:
    for step in delivery.decisions:
        if step.rule == "replay":
            yield Event(step.at, "replayed", "")
        elif step.rule == "digest" and step.result == "pass":
            yield Event(step.at, "digest", step.detail)
        elif step.result != "pass":
            yield Event(step.at, step.result, _describe(step), _colour(step.result))
    for attempt in delivery.attempts:
        # The last failure is told by the state that it led to.
        if attempt.outcome != delivery.state:
            yield Event(attempt.at, attempt.outcome, attempt.code, _colour(attempt.outcome))
    if delivery.settled_at:
        state = State.SENT if delivery.state in _TAKEN else delivery.state
        yield Event(delivery.settled_at, state, _explanation(delivery), _colour(state))
    for receipt in delivery.receipts:
        yield Event(receipt.at, receipt.event, "reported by the device", _colour(receipt.event))


def _colour(kind: str) -> str:
    return EVENT_COLOURS.get(kind, "default")


def _describe(step: Step) -> str:
    until = f", until {moment(step.until)}" if step.until else ""
    times = f", {step.count} times" if step.count > 1 else ""
    return f"{step.rule}: {step.detail}{until}{times}"


def _elapsed(time: timedelta) -> str:
    """Format the time since a notification was accepted."""
    if abs(time) < LONG:
        return f"{time.total_seconds() * 1000:+.1f} ms"
    return f"{'-' if time < timedelta(0) else '+'}{abs(timedelta(seconds=round(time.total_seconds())))}"


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
    if state in _TAKEN:
        named = f" as {delivery.provider_message_id}" if delivery.provider_message_id else ""
        return f"accepted by {delivery.provider}{named}"
    text = f"{_STATES.get(state, state)}: {delivery.last_error_code or 'no code'}"
    return f"{text} ({delivery.hint})" if delivery.hint else text
