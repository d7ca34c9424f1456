"""What explain says comes true, whoever it is about and whatever the clock shows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.engine.stage import PUSH, Stage, StubProvider, a_provider, an_intent
from tests.rows import add_user
from tests.waiting import found
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.timing.days import next_local_day
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.accept.planner import Planner
from tocsin.engine.inspect.explain import Explainer
from tocsin.wire.notifications import ExplainedRoute, Explanation

START = datetime(2026, 11, 15, 0, 7, tzinfo=UTC)
ZONES = ("Europe/Istanbul", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "Nowhere/Else", None)
WINDOWS = ("08:00-20:00", "22:00-06:00", "always", "no window", None)
TYPES = ("plain", "urgent", "critical", "rare", "paced", "fleeting", "gathered", "must_know")
CHANNELS = {**PUSH, "email": ("smtp",)}
SLACK = timedelta(minutes=1)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody, their phones, a type and an hour."""

    kind: str
    timezone: str | None
    gmt_offset_seconds: int | None
    allowed_window: str | None
    choice: Any
    email: str | None
    late_phone: bool
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
    choice=st.sampled_from((None, {"push": False}, {"push": True}, {"push": "odd"}, "odd", {"email": False})),
    email=st.sampled_from((None, "ada@example.com")),
    late_phone=st.booleans(),
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
        "insert into users (user_id, email, timezone, gmt_offset_seconds, allowed_window, updated_at) "
        "values ('ada', $1, $2, $3, $4, now())",
        situation.email,
        situation.timezone,
        situation.gmt_offset_seconds,
        situation.allowed_window,
    )
    if situation.choice is not None:
        await stage.pool.execute(
            "insert into preferences (user_id, choices, updated_at) values ('ada', $1, now())",
            msgspec.json.encode({stage.catalog.types[situation.kind].category: situation.choice}).decode(),
        )
    for number, zone in enumerate(situation.phones):
        await stage.device("ada", token=f"phone-{number}", timezone=zone)


def explainer(stage: Stage) -> Explainer:
    rules = stage.rules(StubProvider(), a_provider("smtp"))
    return Explainer(Planner(stage.catalog, CHANNELS, {}, stage.toggles), rules)


async def explained(stage: Stage, **changes: Any) -> list[ExplainedRoute]:
    async with stage.pool.acquire() as connection:
        told = await explainer(stage).explain(connection, "shop", an_intent("ada", **changes), stage.clock())
    assert isinstance(told, Explanation)
    return told.routes


# Without shrinking: each example runs a worker, and a smaller one would take minutes to find.
@settings(
    max_examples=50,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(situation=situations)
@example(
    situation=Situation(
        kind="gathered",
        timezone="Nowhere/Else",
        gmt_offset_seconds=-18_000,
        allowed_window="no window",
        choice=None,
        email="ada@example.com",
        late_phone=True,
        phones=("America/New_York", "Nowhere/Else"),
        hours=31,
        earlier=2,
        local=True,
        per_device=1,
    )
)
async def test_explain_agrees_with_what_then_happens(stage: Stage, situation: Situation) -> None:
    stage.quiet = QuietHoursSettings(default_timezone="UTC")
    stage.limits = LimitsSettings(per_person_per_day=3, per_device_per_day=situation.per_device)
    # Minutes away from any edge, so that the time a step takes cannot carry the case across one.
    stage.clock.move_to(START + timedelta(hours=situation.hours))
    await lay_out(stage, situation)
    stage.acceptor = stage.an_acceptor(CHANNELS)
    changes: dict[str, Any] = {"type": situation.kind, "payload": {}}
    async with stage.working(StubProvider(), a_provider("smtp")):
        for number in range(situation.earlier):
            await stage.accept("ada", **changes, idempotency_key=f"earlier-{number}")
            await found(lambda: idle(stage))
        if situation.kind != "gathered" or situation.local:
            # Explain reckons with what was counted so far, not with what else waits for its time.
            await stage.pool.execute("delete from deliveries where state in ('scheduled', 'pending')")
        if situation.late_phone:
            await stage.device("ada", token="phone-late")
        if situation.local:
            changes["send_at_local"] = (stage.clock() + timedelta(hours=3)).replace(tzinfo=None)
        told = await explained(stage, **changes)
        notification_id = await stage.accept("ada", **changes)
        await found(lambda: idle(stage))
        for _ in range(20):
            due_at = await next_due(stage)
            if due_at is None:
                break
            stage.clock.advance(due_at - stage.clock() + timedelta(seconds=1))
            await found(lambda: idle(stage))

    rows = await stage.deliveries(notification_id)
    for route in told:
        check(route, [row for row in rows if row["channel"] == route.channel], await carried(stage, rows))


def check(route: ExplainedRoute, rows: list[dict[str, Any]], carriers: list[dict[str, Any]]) -> None:
    """Compare what was told of a route with what became of its deliveries."""
    if route.outcome != "sent":
        assert {(row["state"], row["reason"]) for row in rows} == {(route.outcome, route.reason)}
        return
    sent = [row for row in rows if row["state"] == "sent"]
    assert {row["reason"] for row in rows if row["state"] != "sent"} <= {"daily_limit"}
    reached = [row["device_id"] for row in carriers or sent if row["state"] == "sent"]
    assert sorted(reached, key=str) == sorted((device.device_id for device in route.devices), key=str)
    assert route.at is not None
    for row in sent:
        assert route.at <= row["settled_at"] <= route.at + SLACK


async def idle(stage: Stage) -> bool:
    """Return whether nothing is due any more."""
    due = await stage.pool.fetchval(
        "select count(*) from deliveries where state in ('scheduled', 'pending', 'retrying')"
        " and (due_at <= $1 or lease is not null)",
        stage.clock(),
    )
    return not due


async def next_due(stage: Stage) -> datetime | None:
    due_at: datetime | None = await stage.pool.fetchval(
        "select min(due_at) from deliveries where state in ('scheduled', 'pending', 'retrying')"
        " and due_at < 'infinity'"
    )
    return due_at


async def carried(stage: Stage, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """List the deliveries that carried the digest of a notification."""
    digests = [row["digest_id"] for row in rows if row["digest_id"]]
    found = await stage.pool.fetch(
        "select * from deliveries where digest_id = any($1::uuid[]) and notification_id is null", digests
    )
    return [dict(row) for row in found]


async def test_a_fallback_is_told_to_be_needed_only_where_the_push_is_not_sent(stage: Stage) -> None:
    await add_user(stage.pool, "ada", email="ada@example.com")
    await stage.device("ada")

    told = {route.channel: route for route in await explained(stage, type="must_know", payload={})}
    assert (told["push"].outcome, told["email"].outcome) == ("sent", "skipped")
    assert told["email"].reason == "failover_not_needed"

    await stage.pool.execute("update devices set push_enabled = false")
    told = {route.channel: route for route in await explained(stage, type="must_know", payload={})}
    assert (told["push"].reason, told["email"].outcome) == ("no_device", "sent")


async def test_a_place_that_a_push_takes_is_not_there_for_the_mail_of_the_same_intent(stage: Stage) -> None:
    stage.limits = LimitsSettings(per_person_per_day=1)
    await add_user(stage.pool, "ada", email="ada@example.com")
    await stage.device("ada")

    told = await explained(stage, type="alert", payload={})

    assert [(route.channel, route.outcome, route.reason) for route in told] == [
        ("push", "sent", None),
        ("email", "skipped", "daily_limit"),
    ]


async def test_a_device_that_is_full_is_named_by_a_step_and_not_among_those_reached(stage: Stage) -> None:
    stage.limits = LimitsSettings(per_device_per_day=1)
    full, free = await stage.device("ada", token="full"), await stage.device("ada", token="free")
    ends_at = next_local_day(stage.clock(), UTC)
    await stage.pool.execute("insert into limit_counters values ($1, $2, 1)", f"device:{full}", ends_at)

    (route,) = await explained(stage, type="plain", payload={})

    assert [device.device_id for device in route.devices] == [free]
    assert [step.detail for step in route.steps if step.rule == "limit"] == ["1 a day for a device"]
