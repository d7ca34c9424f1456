import asyncio
from collections import Counter
from typing import Any

from tests.engine.dispatch.digest.comments import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    WINDOW,
    carriers,
    comment,
    comments,
    digests,
    every,
    part_of,
    steps,
    titles,
)
from tests.engine.stage import PUSH, Stage, StubProvider, an_intent
from tests.rows import got
from tests.waiting import found
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.accept.planner import Planner
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.inspect.explain import Explainer
from tocsin.engine.inspect.show import show
from tocsin.store.deliveries.holds import cancel, reschedule
from tocsin.wire import notifications as wire


async def test_what_comes_within_a_window_becomes_one_message_that_lists_all(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    made = await comments(stage, 5)
    rows = await every(stage, made, "scheduled")
    assert {row["held_by"] for row in rows} == {"digest"}
    assert await digests(stage) == ["open"]
    async with stage.working(provider):
        assert provider.arrived == []
        stage.clock.advance(WINDOW)
        members = await every(stage, made, "sent")

    (message,) = provider.arrived
    (carrier,) = await carriers(stage)
    assert (message.title, message.body) == ("5 comments, last by a4", "a0 a1 a2 a3 a4")
    assert message.data["count"] == "5"
    assert (message.delivery_id, message.notification_id) == (carrier["id"], made[-1])
    assert {row["provider_message_id"] for row in members} == {carrier["provider_message_id"]}
    for row in members:
        assert steps(row)[-1].detail == part_of(carrier, "sent as part of")
        assert (row["attempts"], row["held_by"], row["provider"]) == (0, None, "fcm")
    assert await digests(stage) == ["ended"]
    devices = [row["id"] for row in await stage.pool.fetch("select id from devices")]
    assert await got(stage.pool, *devices) == (1, carrier["settled_at"])


async def test_one_alone_is_a_digest_of_one(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    made = await comments(stage, 1)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")

    assert titles(provider) == ["A comment, last by a0"]


async def test_the_next_window_begins_anew(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    async with stage.working(provider):
        for turn in ("x", "y"):
            made = [await comment(stage, f"{turn}{number}") for number in range(3)]
            stage.clock.advance(WINDOW)
            await every(stage, made, "sent")

    assert [message.body for message in provider.arrived] == ["x0 x1 x2", "y0 y1 y2"]


async def test_people_and_the_values_of_the_field_are_told_apart(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    await stage.device("bob")
    made = [
        await comment(stage, f"{post}{number}", user, post=post)
        for number in range(2)
        for user in ("ada", "bob")
        for post in ("P", "Q")
    ]
    made += [await comment(stage, "none", payload={"author": "none"})]
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")

    told = Counter((message.target, message.body) for message in provider.arrived)
    bodies = ("P0 P1", "Q0 Q1")
    assert told == Counter([(user, body) for user in ("ada", "bob") for body in bodies] + [("ada", "none")])


async def test_versions_that_upgrade_are_told_in_the_words_of_the_new(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    made = [
        await comment(stage, "old", version=1, payload={"who": "old"}),
        await comment(stage, "new", payload={"author": "new"}),
    ]
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")

    assert [message.body for message in provider.arrived] == ["old new"]


async def test_those_accepted_together_share_one(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    answers = await stage.acceptor.accept(
        "shop",
        [
            an_intent(
                "ada", type="comment", payload={"author": f"a{number}"}, idempotency_key=f"k{9 - number}"
            )
            for number in range(5)
        ],
    )
    made = [answer.notification_id for answer in answers if isinstance(answer, Accepted)]
    assert {row["held_by"] for row in await every(stage, made, "scheduled")} == {"digest"}
    assert await digests(stage) == ["open"]
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")

    assert [message.body for message in provider.arrived] == ["a0 a1 a2 a3 a4"]


async def test_those_accepted_at_the_same_time_share_one(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    acceptors = [stage.an_acceptor() for _ in range(4)]
    answers = await asyncio.gather(
        *(
            acceptor.accept(
                "shop",
                [
                    an_intent(
                        "ada", type="comment", payload={"author": f"a{number}"}, idempotency_key=f"{number}"
                    )
                ],
            )
            for number, acceptor in enumerate(acceptors)
        )
    )
    made = [answer.notification_id for (answer,) in answers if isinstance(answer, Accepted)]
    assert await digests(stage) == ["open"]
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")

    assert [sorted(message.body.split()) for message in provider.arrived] == [["a0", "a1", "a2", "a3"]]


async def test_a_list_has_the_newest_fifty_and_counts_all(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    made = await comments(stage, 60)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")

    (message,) = provider.arrived
    assert message.title == "60 comments, last by a59"
    assert message.body.split() == [f"a{number}" for number in range(10, 60)]


async def test_what_is_taken_back_before_the_window_ends_is_not_told(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    made = await comments(stage, 4)
    async with stage.working(provider):
        assert await cancel(stage.pool, made[0], stage.clock()) == 1
        assert provider.arrived == []
        stage.clock.advance(WINDOW)
        await every(stage, made[1:], "sent")

    assert [message.body for message in provider.arrived] == ["a1 a2 a3"]


async def test_a_digest_whose_members_are_all_taken_back_is_not_sent(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    made = await comments(stage, 2)
    for each in made:
        await cancel(stage.pool, each, stage.clock())
    async with stage.working(provider):
        stage.clock.advance(WINDOW)

        async def ended() -> bool:
            return await digests(stage) == ["ended"]

        await found(ended)
        (carrier,) = await carriers(stage)
        later = await comments(stage, 1, idempotency_key="later")
        stage.clock.advance(WINDOW)
        await every(stage, later, "sent")

    assert carrier["state"] == "cancelled"
    assert [message.body for message in provider.arrived] == ["a0"]


async def test_one_that_is_moved_goes_alone(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    made = await comments(stage, 3)
    async with stage.working(provider):
        await reschedule(stage.pool, made[0], stage.clock() + 5 * HOUR, stage.clock())
        stage.clock.advance(WINDOW)
        await every(stage, made[1:], "sent")
        stage.clock.advance(5 * HOUR + SECOND)
        await every(stage, made, "sent")

    assert [message.body for message in provider.arrived] == ["a1 a2", "a0"]


async def test_what_comes_while_a_digest_waits_for_the_morning_joins_it(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    stage.quiet = QuietHoursSettings(default_timezone="UTC")
    stage.clock.move_to(NOON + 9 * HOUR + 30 * MINUTE)
    early = await comment(stage, "early")
    async with stage.working(provider):
        stage.clock.advance(WINDOW)

        async def waits() -> bool:
            (carrier,) = await carriers(stage)
            return bool(carrier["due_at"] > stage.clock() + 9 * HOUR)

        await found(waits)
        late = await comment(stage, "late")
        stage.clock.advance(11 * HOUR)
        await every(stage, [early, late], "sent")

    assert [message.body for message in provider.arrived] == ["early late"]


async def test_what_expired_or_was_replaced_is_not_told(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    made = [
        await comment(stage, "short", ttl_seconds=1),
        await comment(stage, "early", collapse_key="c"),
        await comment(stage, "other"),
        await comment(stage, "brief", ttl_seconds=1),
        await comment(stage, "late", collapse_key="c"),
    ]
    async with stage.working(provider):
        stage.clock.advance(WINDOW + 10 * SECOND)
        rows = await every(stage, made, "sent", "expired", "skipped")

    assert [(row["state"], row["reason"]) for row in rows] == [
        ("expired", None),
        ("skipped", "collapsed"),
        ("sent", None),
        ("expired", None),
        ("sent", None),
    ]
    assert [message.body for message in provider.arrived] == ["other late"]


async def test_what_has_a_time_of_its_own_is_not_collected(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    made = await comments(stage, 2)
    own = await comment(stage, "own", send_at=stage.clock() + 2 * HOUR)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")
        stage.clock.advance(HOUR)
        await every(stage, [own], "sent")

    assert titles(provider) == ["2 comments, last by a1", "A comment, last by own"]


async def test_explain_tells_when_the_digest_leaves(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    intent = an_intent("ada", type="comment", payload={"author": "x"}, idempotency_key="x")
    explainer = Explainer(
        Planner(stage.catalog, PUSH, {}, stage.toggles),
        DeliveryRules(
            catalog=stage.catalog,
            providers=frozenset({"fcm"}),
            toggles=stage.toggles,
            quiet=QuietHours.compile(stage.quiet),
            limits=stage.limits,
        ),
    )

    async def explained() -> tuple[str, Any, wire.Step]:
        async with stage.pool.acquire() as connection:
            told = await explainer.explain(connection, "shop", intent, stage.clock())
        assert isinstance(told, wire.Explanation)
        (route,) = told.routes
        return route.outcome, route.at, route.steps[0]

    now = stage.clock()
    outcome, at, step = await explained()
    assert (outcome, step.rule, step.result, step.until) == ("sent", "digest", "hold", at)
    assert HOUR <= at - now < HOUR + MINUTE

    await stage.accept("ada", type="comment", payload={"author": "y"}, idempotency_key="y")
    stage.clock.advance(20 * MINUTE)
    (carrier,) = await carriers(stage)
    assert (await explained())[1] == carrier["due_at"]

    member = await stage.accept("ada", type="comment", payload={"author": "x"}, idempotency_key="x")
    async with stage.working(provider):
        stage.clock.advance(41 * MINUTE)
        await every(stage, [member], "sent")
    async with stage.pool.acquire() as connection:
        shown = await show(connection, member, stage.clock())
    assert shown is not None
    details = [step.detail for step in shown.deliveries[0].decisions]
    assert details == [part_of(carrier, "sent as part of")]
