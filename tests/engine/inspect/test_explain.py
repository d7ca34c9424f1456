"""What explain says comes true, whoever it is about and whatever the clock shows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.stage import PUSH, Stage, StubProvider, an_intent
from tests.waiting import found
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.accept.planner import Planner
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.inspect.explain import Explainer
from tocsin.wire.notifications import ExplainedRoute, Explanation

START = datetime(2026, 11, 15, 0, 7, tzinfo=UTC)
ZONES = ("Europe/Istanbul", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "Nowhere/Else", None)
WINDOWS = ("08:00-20:00", "22:00-06:00", "always", "no window", None)
TYPES = ("plain", "urgent", "critical", "rare", "paced", "fleeting")


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody, their phones, a type and an hour."""

    kind: str
    timezone: str | None
    gmt_offset_seconds: int | None
    allowed_window: str | None
    choice: Any
    phones: tuple[str | None, ...]
    hours: int
    earlier: int
    local: bool
    per_device: int | None


situations = st.builds(
    Situation,
    kind=st.sampled_from(TYPES),
    timezone=st.sampled_from(ZONES),
    gmt_offset_seconds=st.sampled_from((None, -18_000, 20_700)),
    allowed_window=st.sampled_from(WINDOWS),
    choice=st.sampled_from((None, {"push": False}, {"push": True}, {"push": "odd"}, "odd")),
    phones=st.lists(st.sampled_from(ZONES), max_size=2).map(tuple),
    hours=st.integers(0, 47),
    earlier=st.integers(0, 3),
    local=st.booleans(),
    per_device=st.sampled_from((None, 1, 2)),
)


async def lay_out(stage: Stage, situation: Situation) -> None:
    await stage.pool.execute(
        "truncate notifications, deliveries, digests, attempts, devices, users, preferences, limit_counters,"
        " tickets"
    )
    await stage.pool.execute(
        "insert into users (user_id, timezone, gmt_offset_seconds, allowed_window, updated_at) "
        "values ('ada', $1, $2, $3, now())",
        situation.timezone,
        situation.gmt_offset_seconds,
        situation.allowed_window,
    )
    if situation.choice is not None:
        await stage.pool.execute(
            "insert into preferences (user_id, choices, updated_at) values ('ada', $1, now())",
            msgspec.json.encode({f"{situation.kind}_news": situation.choice}).decode(),
        )
    for number, zone in enumerate(situation.phones):
        await stage.device("ada", token=f"phone-{number}", timezone=zone)


def explainer(stage: Stage) -> Explainer:
    rules = DeliveryRules(
        catalog=stage.catalog,
        providers=frozenset({"fcm"}),
        toggles=stage.toggles,
        quiet=QuietHours.compile(stage.quiet),
        limits=stage.limits,
    )
    return Explainer(Planner(stage.catalog, PUSH, {}, stage.toggles), rules)


async def explained(stage: Stage, **changes: Any) -> ExplainedRoute:
    async with stage.pool.acquire() as connection:
        told = await explainer(stage).explain(connection, "shop", an_intent("ada", **changes), stage.clock())
    assert isinstance(told, Explanation)
    (route,) = told.routes
    return route


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(situation=situations)
async def test_explain_agrees_with_what_then_happens(stage: Stage, situation: Situation) -> None:
    stage.quiet = QuietHoursSettings(default_timezone="UTC")
    stage.limits = LimitsSettings(per_person_per_day=3, per_device_per_day=situation.per_device)
    # Minutes away from any edge, so that the time a step takes cannot carry the case across one.
    stage.clock.move_to(START + timedelta(hours=situation.hours))
    await lay_out(stage, situation)
    changes: dict[str, Any] = {"type": situation.kind, "payload": {}}
    provider = StubProvider()
    async with stage.working(provider):
        for number in range(situation.earlier):
            before = await stage.accept("ada", **changes, idempotency_key=f"earlier-{number}")
            await decided(stage, before)
        # Explain reckons with what was counted so far, not with what else waits for its time.
        await stage.pool.execute("delete from deliveries where state in ('scheduled', 'pending')")
        if situation.local:
            changes["send_at_local"] = (stage.clock() + timedelta(hours=3)).replace(tzinfo=None)
        told = await explained(stage, **changes)
        notification_id = await stage.accept("ada", **changes)
        arrived = len(provider.arrived)

        for _ in range(10):
            rows = await decided(stage, notification_id)
            if any(row["state"] in {"sent", "skipped", "expired"} for row in rows):
                break
            assert len(provider.arrived) == arrived
            (row,) = rows
            assert told.at is None or row["due_at"] <= told.at
            stage.clock.advance(row["due_at"] - stage.clock() + timedelta(seconds=1))

    assert {row["state"] for row in rows} == {told.outcome}
    assert {row["reason"] for row in rows} == {told.reason}
    if told.outcome == "sent":
        assert {row["device_id"] for row in rows} == {device.device_id for device in told.devices}
        assert told.at is not None
        assert stage.clock() >= told.at


async def decided(stage: Stage, notification_id: Any) -> list[dict[str, Any]]:
    """Wait until nothing of a notification is due any more, and give what became of it."""

    async def look() -> list[dict[str, Any]]:
        rows = await stage.deliveries(notification_id)
        idle = all(
            row["lease"] is None
            and (row["state"] in {"sent", "skipped", "expired"} or row["due_at"] > stage.clock())
            for row in rows
        )
        return rows if idle else []

    return await found(look)
