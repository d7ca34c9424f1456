"""`tocsin send`."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, assert_never

from tocsin.cli.access import over_http, with_pool
from tocsin.cli.notifications.explain import explanation
from tocsin.cli.notifications.intents import Producer, check_producer, read_intent
from tocsin.cli.options import with_options_of
from tocsin.cli.output import AsJson, errors, fail, moment, print_result
from tocsin.domain.errors import FaultsError, TocsinError
from tocsin.domain.ids import NotificationId
from tocsin.domain.intent import Intent
from tocsin.wire.answers import Accepted, Answer, Conflict, Duplicate, Invalid
from tocsin.wire.notifications import ExplainedRoute, Explanation

if TYPE_CHECKING:
    from tocsin.cli.remote import Remote
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool

MOST_SHOWN = 10


@with_options_of(read_intent)
def send(intent: Intent, producer: Producer = "cli", as_json: AsJson = False) -> None:
    """Hand in one notification; if it waits, for quiet hours for example, tell until when."""
    remote = over_http()
    if remote:
        check_producer(producer)
        answer: Answer = _hand_in(remote, intent)
    else:
        answer = with_pool(lambda settings, pool: _accept(settings, pool, producer, intent))
    waiting: list[str] = []
    if isinstance(answer, Accepted):
        from tocsin.store.pool import DATABASE_FAULTS

        # It is accepted, whatever becomes of the question.
        with suppress(TocsinError, *DATABASE_FAULTS):
            waiting = _waiting(intent, producer)
    _report(answer, waiting, as_json)


def _waiting(intent: Intent, producer: str) -> list[str]:
    """Describe which deliveries of an intent wait, until when and why."""
    explained = explanation(intent, producer, None)
    if isinstance(explained, list):
        return []
    waiting = [route for route in explained.routes if route.outcome == "sent" and _waits(route, explained)]
    shown = [
        f"{route.route_id} waits until {moment(route.at)}{_why(route)}" for route in waiting[:MOST_SHOWN]
    ]
    more = len(waiting) - len(shown)
    return [*shown, f"… and {more} more"] if more else shown


def _waits(route: ExplainedRoute, explained: Explanation) -> bool:
    return route.at is not None and route.at > explained.now


def _why(route: ExplainedRoute) -> str:
    holds = [step.detail for step in route.steps if step.result == "hold"]
    return f": {holds[-1]}" if holds else ""


def _hand_in(remote: "Remote", intent: Intent) -> Answer:
    from tocsin.client.errors import ConflictError

    try:
        return remote.call(Accepted | Duplicate, "POST", "notifications", body=intent)  # type: ignore[arg-type]  # a union
    except ConflictError as error:
        if error.notification_id is None:
            raise
        return Conflict(NotificationId(error.notification_id))


async def _accept(settings: "Settings", pool: "Pool", producer: str, intent: Intent) -> Answer:
    from tocsin.compose.catalog import read_catalog
    from tocsin.compose.database import database_clock
    from tocsin.compose.parts import known_toggles, planner
    from tocsin.compose.providers_in_use import providers_by_channel
    from tocsin.engine.accept.acceptor import Acceptor

    if not providers_by_channel(settings):
        errors.print(
            "warning: no provider is set up in this shell, so every delivery will be skipped as "
            "channel_unavailable; give this command the settings that the server has.",
            style="yellow",
        )
    async with known_toggles(settings, pool) as toggles:
        clock = await database_clock(pool)
        accepting = Acceptor(pool, planner(settings, read_catalog(settings), toggles), clock)
        return (await accepting.accept(producer, [intent], source="cli"))[0]


def _report(answer: Answer, waiting: Sequence[str], as_json: bool) -> None:
    match answer:
        case Accepted(notification_id=accepted_as) | Duplicate(notification_id=accepted_as):
            print_result(
                {"notification_id": accepted_as, "status": answer.status, "waiting": waiting},
                as_json,
                f"{answer.status} {accepted_as}",
                *waiting,
                f"See its deliveries: tocsin show {accepted_as}",
            )
        case Conflict(notification_id=accepted_as):
            fail(f"This key belongs to other content, accepted as {accepted_as}.")
        case Invalid(errors=faults):
            raise FaultsError("The intent was refused:", faults)
        case _:
            assert_never(answer)
