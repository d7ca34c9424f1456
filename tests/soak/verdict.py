"""Compares what the database says with what the providers took."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import asyncpg
import msgspec

from tests.databases import SCHEMA
from tests.soak import catalog
from tests.soak.load import HOSTILE, Load
from tests.soak.site import Site, Span
from tocsin.store.pool import PoolSettings, connect, opened_connection

IN_SOCKETS_SECONDS = 0.5
"""How long after the death of its sender a message may still arrive."""
SETTLING_SECONDS = 2.0
"""How long a worker may take to settle an answer."""
RECONNECT_SECONDS = 8.0
"""How long it may take to settle after an outage."""
_FINAL = ("sent", "delivered", "rejected", "gone", "dead", "skipped", "cancelled", "expired")
_TAKEN = ("sent", "delivered")

_DELIVERIES = """
select
    delivery.id::text, delivery.notification_id::text as notification, delivery.state, delivery.reason,
    delivery.last_error_code as code, delivery.attempts, delivery.user_id as person, notification.type,
    notification.producer
from deliveries as delivery
join notifications as notification on notification.id = delivery.notification_id
"""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as the database has it."""

    id: str
    notification: str
    state: str
    reason: str | None
    code: str | None
    attempts: int
    person: str | None
    type: str
    producer: str

    @property
    def poisonous(self) -> bool:
        """Whether it cannot be rendered."""
        return self.type in catalog.POISONS

    @property
    def hostile(self) -> bool:
        """Whether its host takes nothing."""
        return (self.person or "").startswith(HOSTILE)

    @property
    def good(self) -> bool:
        """Whether it must arrive."""
        return not (self.poisonous or self.hostile)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a soak, and the first few of what went wrong."""

    accepted: int
    sent: int
    lost: int
    wrongly_skipped: int
    wrongly_ended: int
    duplicates: int
    unexplained_duplicates: int
    poisonous: int
    poison_not_rejected: int
    hostile: Counter[str]
    examples: list[str]

    @property
    def passed(self) -> bool:
        """Whether nothing was lost, skipped, ended or repeated wrongly."""
        wrong = (self.lost, self.wrongly_skipped, self.wrongly_ended, self.unexplained_duplicates)
        return not any(wrong) and not self.poison_not_rejected


async def read_deliveries(site: Site) -> list[Delivery]:
    """Read every delivery."""
    async with opened_connection(connect(site.url, SCHEMA, PoolSettings())) as connection:
        return [Delivery(**row) for row in await connection.fetch(_DELIVERIES)]


def unsettled(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """List the deliveries that must still arrive or be rejected."""
    return [each for each in deliveries if not each.hostile and each.state not in _FINAL]


async def unpublished(site: Site) -> tuple[int, int]:
    """Count the rows of the outbox, and those that wait."""
    connection = await asyncpg.connect(site.shop_url)
    try:
        counts = await connection.fetchrow(
            "select count(*) as written, count(*) filter (where published_at is null) as waiting "
            "from tocsin_outbox"
        )
    finally:
        await connection.close()
    return counts["written"], counts["waiting"]


def judge(site: Site, load: Load, deliveries: list[Delivery], written: int) -> Verdict:
    """Compare the deliveries with what arrived."""
    arrivals: dict[str, list[float]] = defaultdict(list)
    for received in site.sandbox.phones.messages(after=0, limit=10**9):
        arrivals[received.delivery_id or ""].append(received.at.timestamp())
    known = {each.notification for each in deliveries}
    relayed = {each.notification for each in deliveries if each.producer != "soak"}
    lost = [
        f"notification {id_} was accepted and is gone" for id_ in load.accepted.values() if id_ not in known
    ]
    lost += ["an outbox row was published and is gone"] * (written - len(relayed))
    skipped, ended, unexplained, rejected_not = [], [], [], []
    duplicates = sent = 0
    hostile: Counter[str] = Counter()
    for each in deliveries:
        times = arrivals[each.id]
        sent += each.good and each.state in _TAKEN
        if each.hostile:
            hostile[each.state] += 1
        elif each.poisonous:
            rejected_not += [_show(each)] if each.state != "rejected" or times else []
        elif each.state == "skipped":
            skipped.append(_show(each))
        elif not times:
            lost.append(_show(each))
        elif each.state not in _TAKEN:
            ended.append(_show(each))
        if len(times) > 1:
            duplicates += len(times) - 1
            if not all(was_unsettled(site, time) for time in times[:-1]):
                unexplained.append(
                    f"{_show(each)} arrived {len(times)} times, {times[-1] - times[0]:.1f} s apart"
                )
    wrong = [lost, skipped, ended, unexplained, rejected_not]
    return Verdict(
        accepted=len(known),
        sent=sent,
        lost=len(lost),
        wrongly_skipped=len(skipped),
        wrongly_ended=len(ended),
        duplicates=duplicates,
        unexplained_duplicates=len(unexplained),
        poisonous=sum(each.poisonous for each in deliveries),
        poison_not_rejected=len(rejected_not),
        hostile=hostile,
        examples=[example for found in wrong for example in found[:5]],
    )


def was_unsettled(site: Site, arrived: float) -> bool:
    """Return whether a worker may have been killed between taking an answer of a provider and settling it."""
    settled_by = arrived + SETTLING_SECONDS
    for outage in sorted(site.outages, key=lambda span: span.start):
        if outage.start < settled_by and outage.end > arrived:
            settled_by = max(settled_by, outage.end + RECONNECT_SECONDS)
    kills: list[Span] = [kill for kill in site.kills if kill.what.startswith("worker")]
    return any(arrived - IN_SOCKETS_SECONDS < kill.start < settled_by for kill in kills)


def _show(delivery: Delivery) -> str:
    facts: dict[str, Any] = msgspec.structs.asdict(delivery)
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
