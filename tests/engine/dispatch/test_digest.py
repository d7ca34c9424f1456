import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from tests.engine.stage import PUSH, QUICK, Stage, StubProvider, an_intent
from tests.waiting import found, until
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog
from tocsin.domain.decide import Step
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.accept.planner import Planner
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.inspect.explain import Explainer
from tocsin.engine.inspect.show import show
from tocsin.store.deliveries.holds import cancel, reschedule
from tocsin.store.people.preferences import refuse
from tocsin.wire import notifications as wire

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
WINDOW = HOUR + SECOND
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

COMMENT = """\
comment:
  version: 2
  category: comments
  channels: [push]
  payload:
    type: object
    properties:
      author: {type: string}
      post: {type: string}
    required: [author]
  data:
    count: "{{ count }}"
  policies:
    digest: {window: 1h, by: post}
    attempts: {push: 2}
    backoff: ladder(10s)
  versions:
    1:
      payload:
        type: object
        properties:
          who: {type: string}
        required: [who]
      upgrade: {rename: {who: author}}
"""
TITLE = "{{ count | plural(one='A comment', other=(count | number) ~ ' comments') }}, last by {{ author }}"
BODY = "{{ items | map(attribute='author') | join(' ') }}"


@pytest.fixture(autouse=True)
def _at_noon(stage: Stage) -> None:
    stage.clock.move_to(NOON)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Give a type that collects for an hour, by post."""
    folder: Path = tmp_path_factory.mktemp("digests")
    texts = folder / "templates" / "comment" / "en"
    texts.mkdir(parents=True)
    (folder / "types").mkdir()
    (folder / "types" / "comment.yaml").write_text(COMMENT)
    (texts / "push.title.j2").write_text(TITLE)
    (texts / "push.body.j2").write_text(BODY)
    return load_catalog(folder)


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider()


async def comment(stage: Stage, author: str, user: str = "ada", **changes: Any) -> UUID:
    """Let somebody comment, which a person is to hear of."""
    payload = changes.pop("payload", {"author": author, "post": changes.pop("post", "P")})
    key = changes.pop("idempotency_key", f"{user}-{author}")
    return await stage.accept(user, type="comment", payload=payload, idempotency_key=key, **changes)


async def comments(stage: Stage, count: int, **changes: Any) -> list[UUID]:
    """Let so many comment, one after the other."""
    return [await comment(stage, f"a{number}", **changes) for number in range(count)]


async def every(stage: Stage, made: Sequence[UUID], *states: str) -> list[dict[str, Any]]:
    """Wait until all deliveries of some notifications are in one of some states, free of leases."""

    async def look() -> list[dict[str, Any]]:
        rows = [row for each in made for row in await stage.deliveries(each)]
        return rows if all(row["state"] in states and row["lease"] is None for row in rows) else []

    return await found(look)


async def carriers(stage: Stage) -> list[dict[str, Any]]:
    """Read the deliveries that carry digests, in the order they were made."""
    rows = await stage.pool.fetch("select * from deliveries where notification_id is null order by id")
    return [dict(row) for row in rows]


async def digests(stage: Stage) -> list[str]:
    """Return the states of all digests, oldest first."""
    return [row["state"] for row in await stage.pool.fetch("select state from digests order by id")]


async def tried(stage: Stage, provider: StubProvider, times: int) -> None:
    """Wait until a digest was tried so often and its carriers are settled or wait."""
    await until(lambda: len(provider.arrived) == times)

    async def idle() -> bool:
        return all(row["lease"] is None for row in await carriers(stage))

    await found(idle)


def steps(row: dict[str, Any]) -> list[Step]:
    return msgspec.json.decode(row["decisions"] or "[]", type=list[Step])


def part_of(carrier: dict[str, Any], how: str) -> str:
    return f"{how} digest {carrier['digest_id']}, delivery {carrier['id']}"


def titles(provider: StubProvider) -> list[str]:
    return [message.title for message in provider.arrived]


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
    assert await stage.pool.fetchval("select notification_count from devices") == 1


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


async def test_every_device_gets_the_whole_list_also_after_a_fault(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada", token="phone")
    await stage.device("ada", token="tablet")
    provider.script("tablet", Retry("UNAVAILABLE"))
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")
        later = await comment(stage, "late")
        stage.clock.advance(11 * SECOND)
        await tried(stage, provider, 3)
        (row,) = await stage.deliveries(later)
        assert (row["state"], row["held_by"]) == ("scheduled", "digest")

    told = Counter((message.target, message.body) for message in provider.arrived)
    assert told == {("phone", "a0 a1 a2"): 1, ("tablet", "a0 a1 a2"): 2}


@pytest.mark.parametrize(("gone", "alive"), [("phone", "tablet"), ("tablet", "phone")])
async def test_one_device_that_is_gone_does_not_end_what_another_gets(
    stage: Stage, provider: StubProvider, gone: str, alive: str
) -> None:
    await stage.device("ada", token="phone")
    await stage.device("ada", token="tablet")
    provider.script(gone, Gone("UNREGISTERED"))
    provider.script(alive, Retry("UNAVAILABLE"))
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await tried(stage, provider, 2)
        waiting = await every(stage, made, "pending")
        assert sorted(row["state"] for row in await carriers(stage)) == ["gone", "retrying"]
        stage.clock.advance(11 * SECOND)
        await every(stage, made, "sent")

    assert [row["held_by"] for row in waiting] == ["digest"] * 3


@pytest.mark.parametrize("fault", [Retry("UNAVAILABLE"), Defer("QUOTA", 5 * SECOND)])
async def test_all_wait_together_for_the_next_attempt(
    stage: Stage, provider: StubProvider, fault: Outcome
) -> None:
    await stage.device("ada")
    provider.script("ada", fault)
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await tried(stage, provider, 1)
        members = await every(stage, made, "pending")
        stage.clock.advance(11 * SECOND)
        await every(stage, made, "sent")

    assert [(row["held_by"], row["attempts"]) for row in members] == [("digest", 0)] * 3
    assert [message.body for message in provider.arrived] == ["a0 a1 a2"] * 2


async def test_what_is_taken_back_between_two_attempts_is_not_told_again(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    provider.script("ada", Retry("UNAVAILABLE"))
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await tried(stage, provider, 1)
        assert await cancel(stage.pool, made[1], stage.clock()) == 1
        stage.clock.advance(11 * SECOND)
        await every(stage, [made[0], made[2]], "sent")

    assert [message.body for message in provider.arrived] == ["a0 a1 a2", "a0 a2"]


async def test_what_is_on_its_way_cannot_be_taken_back_but_is_not_tried_again(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    provider.hold()
    provider.script("ada", Retry("UNAVAILABLE"))
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await until(lambda: len(provider.arrived) == 1)
        assert await cancel(stage.pool, made[2], stage.clock()) == 0
        provider.let_go.set()
        await tried(stage, provider, 1)
        stage.clock.advance(11 * SECOND)
        await every(stage, made[:2], "sent")
        await every(stage, made[2:], "cancelled")

    assert [message.body for message in provider.arrived] == ["a0 a1 a2", "a0 a1"]


@pytest.mark.parametrize(
    ("faults", "state", "code"),
    [
        ([Retry("UNAVAILABLE")] * 2, "dead", "UNAVAILABLE"),
        ([Rejected("INVALID")], "rejected", "INVALID"),
        ([Gone("UNREGISTERED")], "gone", "UNREGISTERED"),
    ],
)
async def test_members_end_as_the_digest_does(
    stage: Stage, provider: StubProvider, faults: list[Outcome], state: str, code: str
) -> None:
    await stage.device("ada")
    provider.script("ada", *faults)
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        for attempt in range(1, len(faults)):
            await tried(stage, provider, attempt)
            stage.clock.advance(11 * SECOND)
        members = await every(stage, made, state)

    (carrier,) = await carriers(stage)
    for row in members:
        assert (row["last_error_code"], row["held_by"]) == (code, None)
        assert row["settled_at"] is not None
        assert steps(row)[-1].detail == part_of(carrier, "ended with")
    assert await digests(stage) == ["ended"]
    assert {message.body for message in provider.arrived} == {"a0 a1 a2"}


async def test_who_opted_out_hears_of_none_and_each_has_the_reason(
    stage: Stage, provider: StubProvider
) -> None:
    await stage.device("ada")
    made = await comments(stage, 3)
    await refuse(stage.pool, "ada", "comments", "push", stage.clock())
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        members = await every(stage, made, "skipped")

    (carrier,) = await carriers(stage)
    assert {row["reason"] for row in (carrier, *members)} == {"opted_out"}
    assert {steps(row)[-1].detail for row in members} == {part_of(carrier, "ended with")}
    assert provider.arrived == []


async def test_who_has_no_device_hears_of_none_and_each_has_the_reason(
    stage: Stage, provider: StubProvider
) -> None:
    made = await comments(stage, 3)
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        rows = await every(stage, made, "skipped")

    assert {row["reason"] for row in rows} == {"no_device"}


async def test_a_digest_counts_once(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    stage.limits = LimitsSettings(per_person_per_day=1)
    first = [await comment(stage, f"p{number}", post="P") for number in range(3)]
    second = [await comment(stage, f"q{number}", post="Q") for number in range(3)]
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        rows = await every(stage, first + second, "sent", "skipped")

    assert [(row["state"], row["reason"]) for row in rows] == [("sent", None)] * 3 + [
        ("skipped", "daily_limit")
    ] * 3


async def test_one_device_beyond_its_limit_does_not_end_what_another_gets(
    stage: Stage, provider: StubProvider
) -> None:
    phone = await stage.device("ada", token="phone")
    stage.limits = LimitsSettings(per_device_per_day=1)
    first = await comments(stage, 1, post="P")
    async with stage.working(provider):
        stage.clock.advance(WINDOW)
        await every(stage, first, "sent")
        await stage.device("ada", token="tablet")
        await stage.pool.execute("update devices set last_seen_at = $1 where id = $2", stage.clock(), phone)
        second = [await comment(stage, f"q{number}", post="Q") for number in range(3)]
        stage.clock.advance(WINDOW)
        await every(stage, second, "sent")

    assert Counter(row["state"] for row in (await carriers(stage))[1:]) == {"sent": 1, "skipped": 1}
    assert [(message.target, message.body) for message in provider.arrived] == [
        ("phone", "a0"),
        ("tablet", "q0 q1 q2"),
    ]


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


async def test_several_workers_tell_each_digest_once(stage: Stage, provider: StubProvider) -> None:
    people = [f"user{number}" for number in range(30)]
    for user in people:
        await stage.device(user)
    made = [await comment(stage, f"a{number}", user) for number in range(5) for user in people]
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(stage.working(provider))
        stage.clock.advance(WINDOW)
        await every(stage, made, "sent")

    told = Counter((message.target, message.body) for message in provider.arrived)
    assert told == Counter((user, "a0 a1 a2 a3 a4") for user in people)


async def test_members_survive_the_worker_that_sent_them(stage: Stage, provider: StubProvider) -> None:
    await stage.device("ada")
    provider.hold()
    made = await comments(stage, 4)
    stage.clock.advance(WINDOW)
    async with stage.working(provider, settings=replace(QUICK, stop_seconds=0.01)):
        await until(lambda: len(provider.arrived) == 1)
    assert all(row["lease"] is not None for row in await carriers(stage))
    provider.let_go.set()
    async with stage.working(provider):
        stage.clock.advance(31 * SECOND)
        await every(stage, made, "sent")

    assert [message.body for message in provider.arrived] == ["a0 a1 a2 a3"] * 2


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
