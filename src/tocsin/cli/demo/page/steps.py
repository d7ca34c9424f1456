"""The seven steps of the tour."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from tocsin.cli.demo.page.snapshot import read_providers
from tocsin.cli.demo.page.stage import Stage
from tocsin.cli.demo.page.tour import Run, TourStep
from tocsin.client.errors import ConflictError
from tocsin.client.intents import Intent, new_key
from tocsin.domain.delivery.reasons import MEANING, Reason
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.errors import TocsinError
from tocsin.engine.inspect.person import Person
from tocsin.sandbox.appearance import appearance
from tocsin.wire.dead_letters import (
    DeadLetterExample,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterGroups,
    Replay,
    ReplayRequest,
    StartedReplay,
)
from tocsin.wire.notifications import Delivery, Notification
from tocsin.wire.search import SearchPage

T = TypeVar("T")

BURST = 12
"""Enough failed attempts at once to open a circuit breaker."""
_TYPE = "new_customer"
_EVERY = 0.1
_TO_SEE = 2.0
"""How long an outage lasts on after it was noticed, so that a visitor can see it."""


class NoDeadLetterError(TocsinError):
    """There is nothing to replay."""


async def show_push(run: Run) -> None:
    """Send one notification to four people on four kinds of devices."""
    stage = run.stage
    await stage.restore(*stage.people)
    shown = await _sent(run, list(stage.people), "Grace Hopper", _is_settled)
    for delivery in shown.deliveries:
        _note_delivery(run, shown, delivery)


async def show_duplicate(run: Run) -> None:
    """Send an intent twice with one idempotency key, and another content with it."""
    stage = run.stage
    await stage.restore("ada")
    key, payload = f"order-{new_key()}", {"customer_name": "Alan Turing"}
    for number in ("First", "Second"):
        taken = await stage.send(_TYPE, ["ada"], payload, key)
        run.note(
            f"{number} request, same key: {taken.status}",
            "good" if taken.status == "accepted" else "warn",
            notification_id=taken.notification_id,
        )
    try:
        await stage.send(_TYPE, ["ada"], {"customer_name": "Someone else"}, key)
    except ConflictError:
        run.note("Other content under the same key: refused with 409 idempotency_conflict", "bad")
    shown = await _decided(stage, taken.notification_id, _is_settled)
    ids = {str(delivery.delivery_id) for delivery in shown.deliveries}
    rung = sum(received.delivery_id in ids for received in stage.messages_of(stage.people["ada"]))
    run.note(f"On ada's phone: {rung} notification", "good" if rung == 1 else "bad")


async def show_quiet_hours(run: Run) -> None:
    """Send to one person at day and one at night."""
    stage = run.stage
    await stage.restore("ada", "linh")
    await stage.switch_person(stage.people["linh"], "night", on=True)
    zone = (await _person(stage, "linh")).zone
    run.note(f"For linh it is {zone.local_time:%H:%M} now, in {zone.name}")
    shown = await _sent(run, ["ada", "linh"], "Edsger Dijkstra", _is_settled_or_scheduled)
    for delivery in shown.deliveries:
        if delivery.state != State.SCHEDULED or delivery.due_at is None:
            _note_delivery(run, shown, delivery)
            continue
        local = delivery.due_at.astimezone(ZoneInfo(zone.name))
        until = f"until {local:%H:%M} on {local:%A}, linh's time"
        run.note(f"{_name(delivery)}: {delivery.state} {until}", "warn")
        for step in delivery.decisions:
            if step.result == "hold":
                run.note(f"Why: {step.detail}", "warn")


async def show_preference(run: Run) -> None:
    """Send to a person who has opted out."""
    stage = run.stage
    await stage.restore("mina")
    await stage.switch_person(stage.people["mina"], "opted_out", on=True)
    choices = (await _person(stage, "mina")).preferences
    run.note(f"mina's preferences: {', '.join(sorted(choices))} switched off")
    shown = await _sent(run, ["mina"], "Margaret Hamilton", _is_settled)
    for delivery in shown.deliveries:
        meaning = MEANING[Reason(delivery.reason)] if delivery.reason else ""
        run.note(f"{_name(delivery)}: {delivery.state}, {delivery.reason}: {meaning}", "warn")


async def show_outage(run: Run) -> None:
    """Break a provider while much is sent, and repair it."""
    stage = run.stage
    await stage.restore("ada")
    stage.switch_provider("fcm", "down", on=True)
    try:
        prefix = f"outage-{new_key()}"
        run.note("FCM answers every request with 503", "bad")
        await stage.send_many([_order(prefix, number) for number in range(1, BURST + 1)])
        run.note(f"{BURST} notifications accepted for ada", "good")
        await _open_circuit(run, prefix)
        await asyncio.sleep(_TO_SEE)
    finally:
        stage.switch_provider("fcm", "down", on=False)
    run.note("FCM answers again")
    await _awaited(lambda: read_providers(stage.calls), lambda found: found["fcm"].state == "closed")
    run.note("A probe succeeded: the circuit breaker is closed", "good")
    states = await _awaited(lambda: _states(stage, prefix), lambda found: found.count(State.SENT) >= BURST)
    run.note(f"{states.count(State.SENT)} of {BURST} sent, 0 lost", "good")


async def show_uninstalled(run: Run) -> None:
    """Send to a person who has removed the app."""
    stage = run.stage
    await stage.restore("kerem")
    await stage.switch_person(stage.people["kerem"], "uninstalled", on=True)
    run.note("kerem deletes the app. Nobody tells Tocsin")
    shown = await _sent(run, ["kerem"], "Barbara Liskov", _is_settled)
    for delivery in shown.deliveries:
        answer = f"{delivery.last_error_code} from {delivery.provider}"
        run.note(f"{_name(delivery)}: {delivery.state}, {answer}", "bad")
    for device in (await _person(stage, "kerem")).devices[:1]:
        run.note(f"Device retired: {device.retired_reason}. It is never tried again", "warn")
    count = sum(group.count for group in await _dead_letters(stage))
    run.note(f"Dead letters of kerem: {count}, kept with cause and payload", "warn")
    run.dashboard = "/dashboard/dead-letters"


async def show_replay(run: Run) -> None:
    """Install the app again, and replay the dead letters of its owner."""
    stage, operator = run.stage, run.stage.calls.operator
    newest = await _newest_dead_letter(stage)
    if newest is None:
        await show_uninstalled(run)
        newest = await _newest_dead_letter(stage)
    if newest is None:
        raise NoDeadLetterError("kerem has no dead letter, so there is nothing to replay. Try step 6.")
    await stage.restore("kerem")
    run.note("kerem installs the app again: a new token is registered")
    body = ReplayRequest(filter=DeadLetterFilter(user="kerem", notification_id=newest.notification_id))
    started = await operator.call(StartedReplay, "POST", "admin", "dead-letters", "replay", body=body)
    run.note(f"Replay {started.replay_id} started")
    stage.remember(newest.notification_id)
    replay = await _awaited(
        lambda: operator.call(Replay, "GET", "admin", "replays", started.replay_id),
        lambda found: found.finished_at is not None,
    )
    run.note(f"Replayed: {replay.replayed}; left out: {sum(replay.left_out.values())}", "good")
    shown = await _decided(stage, newest.notification_id, _is_settled)
    for delivery in shown.deliveries:
        _note_delivery(run, shown, delivery)
    run.dashboard = f"/dashboard/notifications/{newest.notification_id}"


STEPS: Sequence[TourStep] = (
    TourStep(
        title="A push arrives",
        text="One request names four people. Tocsin finds their devices, renders the text in the language of "
        "each, and hands it to FCM, APNs, Expo and Web Push.",
        action="Send to everyone",
        run=show_push,
    ),
    TourStep(
        title="Sent twice, received once",
        text="A producer that got no answer sends again. The idempotency key makes that safe: the second "
        "request is answered as a duplicate, and no phone rings twice.",
        action="Send the same request twice",
        run=show_duplicate,
    ),
    TourStep(
        title="Never at night",
        text="linh travels to where it is night. ada gets the message at once, linh in the morning, and "
        "the timeline says why.",
        action="Send while linh sleeps",
        run=show_quiet_hours,
    ),
    TourStep(
        title="Every silence has a reason",
        text="mina does not want these messages any more. Nothing is sent, and what was not sent stays on "
        "record with its reason.",
        action="Opt mina out and send",
        run=show_preference,
    ),
    TourStep(
        title="A provider breaks",
        text="FCM fails while twelve messages are on their way. After the first failures the circuit breaker "
        "opens, and the rest waits. When FCM is back, everything arrives.",
        action="Break FCM and send twelve",
        run=show_outage,
    ),
    TourStep(
        title="An app is uninstalled",
        text="kerem deletes the app. Apple says so with the next push: the device is retired, and the "
        "message becomes a dead letter, kept with its cause.",
        action="Uninstall and send",
        run=show_uninstalled,
    ),
    TourStep(
        title="Search, find out, replay",
        text="The dashboard shows all of this to operators: search, the timeline of each notification, dead "
        "letters by cause. kerem is back, so what was lost to the old device is replayed.",
        action="Reinstall and replay",
        run=show_replay,
        pages={
            "Search": "/dashboard/notifications?user=kerem",
            "Dead letters": "/dashboard/dead-letters",
            "People": "/dashboard/people/kerem",
            "Providers": "/dashboard/providers",
        },
    ),
)


async def _sent(run: Run, users: Sequence[str], name: str, until: Callable[[Delivery], bool]) -> Notification:
    """Send a notification and wait until each of its deliveries is in a wanted state."""
    taken = await run.stage.send(_TYPE, users, {"customer_name": name})
    run.note("202 Accepted", "good", notification_id=taken.notification_id)
    return await _decided(run.stage, taken.notification_id, until)


async def _decided(stage: Stage, notification_id: UUID, until: Callable[[Delivery], bool]) -> Notification:
    """Wait until each delivery of a notification is in a wanted state."""
    return await _awaited(
        lambda: stage.calls.producer.show(notification_id),
        lambda shown: bool(shown.deliveries) and all(map(until, shown.deliveries)),
    )


async def _awaited(read: Callable[[], Awaitable[T]], is_wanted: Callable[[T], bool]) -> T:
    """Read until it is what is wanted."""
    while True:
        found = await read()
        if is_wanted(found):
            return found
        await asyncio.sleep(_EVERY)


async def _open_circuit(run: Run, prefix: str) -> None:
    stage = run.stage
    providers = await _awaited(
        lambda: read_providers(stage.calls), lambda found: found["fcm"].state != "closed"
    )
    fcm = providers["fcm"]
    run.note(f"Circuit breaker of fcm: {fcm.state}, {fcm.code}", "bad")
    states = await _states(stage, prefix)
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    run.note(f"Of {BURST}: {counts}", "warn")


async def _states(stage: Stage, prefix: str) -> list[str]:
    """Read the states of the deliveries whose idempotency keys begin with a prefix."""
    found = await stage.calls.operator.call(
        SearchPage, "GET", "notifications", key_prefix=prefix, limit=BURST
    )
    return [delivery.state for item in found.items for delivery in item.deliveries]


async def _dead_letters(stage: Stage) -> list[DeadLetterGroup]:
    """List the causes of kerem's dead letters."""
    found = await stage.calls.operator.call(DeadLetterGroups, "GET", "admin", "dead-letters", user="kerem")
    return found.groups


async def _newest_dead_letter(stage: Stage) -> DeadLetterExample | None:
    """Return kerem's newest dead letter, if it was sent from the page since everything was put back."""
    examples = [group.example for group in await _dead_letters(stage)]
    newest = max(examples, key=lambda each: each.settled_at, default=None)
    return newest if newest is not None and newest.notification_id in stage.sent else None


async def _person(stage: Stage, user_id: str) -> Person:
    return await stage.calls.operator.call(Person, "GET", "admin", "people", user_id, limit=1)


def _order(prefix: str, number: int) -> Intent:
    payload = {"title": f"Order {100 + number}", "body": "It is on its way.", "category": "orders"}
    return Intent("message", users=["ada"], payload=payload, idempotency_key=f"{prefix}-{number}")


def _note_delivery(run: Run, shown: Notification, delivery: Delivery) -> None:
    """Write down how a delivery ended, and what its owner sees."""
    is_sent = delivery.state in {State.SENT, State.DELIVERED}
    took = "" if delivery.settled_at is None else f" {_since(shown.accepted_at, delivery.settled_at)}"
    text = f"{_name(delivery)}: {delivery.state} by {delivery.provider}{took}"
    person = run.stage.people[_name(delivery)]
    titles = [
        appearance(received).title
        for received in run.stage.messages_of(person)
        if received.delivery_id == str(delivery.delivery_id)
    ]
    seen = "".join(f" · “{title}”" for title in titles)
    run.note(text + seen, "good" if is_sent else "bad")


def _since(start: datetime, end: datetime) -> str:
    seconds = (end - start).total_seconds()
    return f"after {seconds * 1000:.0f} ms" if seconds < 1 else f"after {seconds:.1f} s"


def _name(delivery: Delivery) -> str:
    return delivery.recipient.removeprefix("user:")


def _is_settled(delivery: Delivery) -> bool:
    return delivery.state not in WAITING


def _is_settled_or_scheduled(delivery: Delivery) -> bool:
    return _is_settled(delivery) or delivery.state == State.SCHEDULED
