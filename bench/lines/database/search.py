"""The slowest answer of each question that an operator asks, among three million deliveries."""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from bench.contract import Arena, Goal, Reading
from bench.filled import DELIVERIES, filled_database
from bench.tocsin_server import SCHEMA
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import State
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.clock import utc_now
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.engine.inspect.person import read_person
from tocsin.engine.inspect.queue import read_queue, read_schedule
from tocsin.engine.inspect.search import search
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.pool import Connection, PoolSettings, open_pool
from tocsin.wire.filters import DeliveryFilter

ROUNDS = 5
SLOWEST = Goal(300, least=False)

FILTERS = {
    "everything": DeliveryFilter(),
    "a person": DeliveryFilter(user="user-4711"),
    "a type": DeliveryFilter(type="type_3"),
    "a rare type": DeliveryFilter(type="rare"),
    "an unknown type": DeliveryFilter(type="unknown"),
    "a small producer": DeliveryFilter(producer="small"),
    "dead": DeliveryFilter(state=State.DEAD),
    "dead, of a rare type": DeliveryFilter(state=State.DEAD, type="rare"),
    "sent": DeliveryFilter(state=State.SENT),
    "retrying": DeliveryFilter(state=State.RETRYING),
    "a reason": DeliveryFilter(reason=Reason.OPTED_OUT),
    "a code": DeliveryFilter(code="timeout"),
    "an unknown code": DeliveryFilter(code="unknown"),
    "a code, by state and type": DeliveryFilter(code="timeout", state=State.GONE, type="type_3"),
    "an unused channel": DeliveryFilter(channel="webhook"),
    "an unused provider": DeliveryFilter(provider="apns"),
    "a key": DeliveryFilter(key_prefix="key-100000"),
}

Question = Callable[[Connection], Awaitable[object]]


class Search:
    name = "search"
    title = "Searching"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        async with (
            filled_database(arena.workdir) as url,
            open_pool(url, SCHEMA, PoolSettings()) as pool,
            pool.acquire() as connection,
        ):
            slowest = {name: await _slowest(connection, ask) for name, ask in _questions().items()}
        return [
            Reading(f"{name}, among {DELIVERIES:,} deliveries", value * 1000, "ms", SLOWEST)
            for name, value in slowest.items()
        ]


def _questions() -> dict[str, Question]:
    rules = DeliveryRules(
        catalog=load_catalog(shipped_catalog()),
        providers=frozenset({"fcm", "smtp"}),
        toggles=Toggles(),
        quiet=QuietHours.compile(QuietHoursSettings()),
        limits=LimitsSettings(per_person_per_day=5, per_device_per_day=5),
    )
    in_use = (ProviderInUse(name="fcm", channel="push"), ProviderInUse(name="smtp", channel="email"))
    searches: dict[str, Question] = {
        f"search for {name}": _searching(given) for name, given in FILTERS.items()
    }
    month = timedelta(days=20)
    return searches | {
        "search for a day": lambda connection: search(
            connection,
            DeliveryFilter(since=utc_now() - month, until=utc_now() - month + timedelta(days=1)),
            utc_now(),
        ),
        "person": lambda connection: read_person(connection, rules, "user-4711", utc_now()),
        "queue": lambda connection: read_queue(connection, in_use, utc_now()),
        "scheduled": lambda connection: read_schedule(connection, 24, utc_now()),
    }


def _searching(given: DeliveryFilter) -> Question:
    return lambda connection: search(connection, given, utc_now())


async def _slowest(connection: Connection, ask: Question) -> float:
    slowest = 0.0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await ask(connection)
        slowest = max(slowest, time.perf_counter() - began)
    return slowest
