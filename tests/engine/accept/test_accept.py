import asyncio
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

from tests.engine.accept.accepting import accept, alert, codes
from tests.engine.stage import Stage, an_intent
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.answers import Accepted, Conflict, Duplicate
from tocsin.store import notifications


async def test_an_intent_becomes_a_notification_with_its_deliveries(stage: Stage) -> None:
    occurred = datetime(2026, 1, 1, tzinfo=UTC)
    notification_id = await stage.accept(
        "ada", "bob", collapse_key="c", request_id="r", trace_id="t", occurred_at=occurred
    )

    stored = await notifications.get(stage.pool, notification_id)
    assert stored is not None
    assert (stored.producer, stored.idempotency_key, stored.type, stored.version) == (
        "shop",
        "key",
        "new_customer",
        2,
    )
    assert (stored.collapse_key, stored.request_id, stored.trace_id) == ("c", "r", "t")
    assert stored.occurred_at == occurred
    assert msgspec.json.decode(stored.payload) == {"customer_name": "Ali Veli"}
    assert msgspec.json.decode(stored.audience) == {"users": ["ada", "bob"]}
    rows = await stage.deliveries(notification_id)
    assert [(row["user_id"], row["channel"], row["state"], row["attempts"]) for row in rows] == [
        ("ada", "push", "pending", 0),
        ("bob", "push", "pending", 0),
    ]


async def test_one_call_is_answered_in_order(stage: Stage) -> None:
    first, second, third, fourth, fifth = await accept(
        stage,
        an_intent(idempotency_key="a"),
        an_intent(idempotency_key="a"),
        an_intent("bob", idempotency_key="a"),
        an_intent(idempotency_key="b", payload={}),
        an_intent(idempotency_key="c"),
    )

    assert isinstance(first, Accepted)
    assert second == Duplicate(first.notification_id)
    assert third == Conflict(first.notification_id)
    assert codes(fourth) == ["missing"]
    assert isinstance(fifth, Accepted)
    assert await stage.pool.fetchval("select count(*) from notifications") == 2
    assert await stage.pool.fetchval("select count(*) from deliveries") == 2


async def test_a_later_call_is_told_of_the_duplicate_and_of_the_conflict(stage: Stage) -> None:
    (first,) = await accept(stage, an_intent("ada", "bob", request_id="1"))
    assert isinstance(first, Accepted)

    again, other = await accept(
        stage, an_intent("bob", "ada", request_id="2"), an_intent("ada", "bob", ttl_seconds=5)
    )

    assert again == Duplicate(first.notification_id)
    assert other == Conflict(first.notification_id)


async def test_keys_belong_to_their_producer(stage: Stage) -> None:
    (one,) = await accept(stage, an_intent(), producer="shop")
    (other,) = await accept(stage, an_intent("bob"), producer="bank")

    assert isinstance(one, Accepted)
    assert isinstance(other, Accepted)


async def test_nothing_handed_in_is_nothing_answered(stage: Stage) -> None:
    assert await accept(stage) == []


async def test_the_same_key_at_once_makes_one_notification(stage: Stage) -> None:
    others = [stage.an_acceptor() for _ in range(3)]
    calls = [
        acceptor.accept("shop", [an_intent(idempotency_key=f"k{number}") for number in order])
        for acceptor in (stage.acceptor, *others)
        for order in (range(8), range(7, -1, -1), (3, 4), (5,), (0, 7, 3))
    ]

    answers = [answer for call in await asyncio.gather(*calls) for answer in call]

    assert len(answers) == 4 * (8 + 8 + 2 + 1 + 3)
    assert sum(isinstance(answer, Accepted) for answer in answers) == 8
    assert all(isinstance(answer, Accepted | Duplicate) for answer in answers)
    assert await stage.pool.fetchval("select count(*) from notifications") == 8
    assert await stage.pool.fetchval("select count(*) from deliveries") == 8


async def test_many_callers_at_once_each_get_their_own_answers(stage: Stage) -> None:
    async def call(number: int) -> None:
        fine, twice, wrong = await accept(
            stage,
            an_intent(f"user{number}", idempotency_key=f"own{number}"),
            an_intent(idempotency_key="shared"),
            an_intent(idempotency_key=f"bad{number}", type="unknown"),
        )
        assert isinstance(fine, Accepted)
        assert isinstance(twice, Accepted | Duplicate)
        assert codes(wrong) == ["unknown_type"]
        (row,) = await stage.deliveries(fine.notification_id)
        assert row["user_id"] == f"user{number}"

    await asyncio.gather(*map(call, range(40)))

    assert await stage.pool.fetchval("select count(*) from notifications") == 41
    assert await stage.pool.fetchval("select count(*) from refused_intents") == 40


async def test_a_lost_database_fails_the_callers_and_is_forgotten_once_it_is_back(stage: Stage) -> None:
    await accept(stage, an_intent(idempotency_key="before"))
    await stage.pool.execute("alter table notifications rename to elsewhere")

    results = await asyncio.gather(
        *(accept(stage, an_intent(idempotency_key=f"k{number}")) for number in range(5)),
        return_exceptions=True,
    )
    await stage.pool.execute("alter table elsewhere rename to notifications")

    assert all(isinstance(result, asyncpg.PostgresError) for result in results)
    (answer,) = await accept(stage, an_intent(idempotency_key="after"))
    assert isinstance(answer, Accepted)


async def test_connections_cut_by_the_server_do_not_stop_accepting(stage: Stage) -> None:
    await accept(stage, an_intent(idempotency_key="before"))
    admin = await asyncpg.connect(stage.database_url)
    try:
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    finally:
        await admin.close()

    results = [
        (
            await asyncio.gather(
                accept(stage, an_intent(idempotency_key=f"k{number}")), return_exceptions=True
            )
        )[0]
        for number in range(10)
    ]

    last = results[-1]
    assert isinstance(last, list)
    assert isinstance(last[0], Accepted)


async def test_a_mistake_of_our_own_is_told_to_who_waits(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> dict[int, tuple[UUID, bytes]]:
        return {}

    await accept(stage, an_intent())
    monkeypatch.setattr(notifications, "existing", broken)

    async with asyncio.timeout(5):
        with pytest.raises(KeyError):
            await accept(stage, an_intent())


async def test_a_caller_that_gives_up_does_not_disturb_the_rest(stage: Stage) -> None:
    leaving = asyncio.create_task(accept(stage, an_intent(idempotency_key="left")))
    staying = asyncio.create_task(accept(stage, an_intent(idempotency_key="stayed")))
    await asyncio.sleep(0)
    leaving.cancel()

    (answer,) = await staying

    assert isinstance(answer, Accepted)
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_large_calls_are_written_apart(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    store = notifications.accept

    async def counted(connection: Any, batch: Any, providers: Any, now: datetime) -> set[UUID]:
        sizes.append(len(batch))
        return await store(connection, batch, providers, now)

    monkeypatch.setattr(notifications, "accept", counted)
    calls = [
        accept(stage, *(an_intent(idempotency_key=f"{call}.{number}") for number in range(900)))
        for call in range(4)
    ]

    await asyncio.gather(*calls)

    assert sum(sizes) == 3_600
    assert max(sizes) <= 1_000


@pytest.mark.parametrize(
    ("audience", "available", "expected"),
    [
        (Audience(users=["ada"]), {"push", "email"}, {"push": ("pending", None), "email": ("pending", None)}),
        (
            Audience(users=["ada"]),
            {"push"},
            {"push": ("pending", None), "email": ("skipped", "channel_unavailable")},
        ),
        (
            Audience(emails=["ada@example.com"]),
            {"push", "email"},
            {"push": ("skipped", "channel_not_for_recipient"), "email": ("pending", None)},
        ),
        (
            Audience(admins=True),
            {"push", "email"},
            {"email": ("skipped", "no_admins_configured")},
        ),
    ],
)
async def test_every_silence_has_a_reason(
    stage: Stage, audience: Audience, available: set[str], expected: dict[str, tuple[str, str | None]]
) -> None:
    acceptor = stage.an_acceptor(dict.fromkeys(available, ("some",)))

    (answer,) = await acceptor.accept(
        "shop", [Intent(type="alert", audience=audience, payload={}, idempotency_key="k")]
    )

    assert isinstance(answer, Accepted)
    rows = await stage.deliveries(answer.notification_id)
    assert {row["channel"]: (row["state"], row["reason"]) for row in rows} == expected
    assert all((row["settled_at"] is not None) == (row["state"] == "skipped") for row in rows)


async def test_administrators_are_those_of_the_type(stage: Stage) -> None:
    acceptor = stage.an_acceptor({"email": ("smtp",)}, {"alert": ["Root@Example.com"]})

    (answer,) = await acceptor.accept(
        "shop",
        [Intent(type="alert", audience=Audience(admins=True), payload={}, idempotency_key="k")],
    )

    assert isinstance(answer, Accepted)
    email = next(row for row in await stage.deliveries(answer.notification_id) if row["channel"] == "email")
    assert (email["address"], email["state"]) == ("Root@example.com", "pending")


async def test_what_lies_ahead_is_scheduled_and_lives_from_then(stage: Stage) -> None:
    send_at = stage.clock() + timedelta(hours=2)
    notification_id = await stage.accept(send_at=send_at, ttl_seconds=60)

    (row,) = await stage.deliveries(notification_id)
    assert (row["state"], row["due_at"]) == ("scheduled", send_at)
    stored = await notifications.get(stage.pool, notification_id)
    assert stored is not None
    assert (stored.send_at, stored.expires_at) == (send_at, send_at + timedelta(seconds=60))


@pytest.mark.parametrize(("asked", "seconds"), [(60, 60), (None, 86_400)])
async def test_the_time_to_live_is_the_intents_own_or_the_types(
    stage: Stage, asked: int | None, seconds: int
) -> None:
    notification_id = await stage.accept(ttl_seconds=asked)

    stored = await notifications.get(stage.pool, notification_id)
    assert stored is not None
    assert stored.expires_at == stored.accepted_at + timedelta(seconds=seconds)


async def test_a_type_without_a_time_to_live_does_not_expire(stage: Stage) -> None:
    (answer,) = await accept(stage, alert())

    assert isinstance(answer, Accepted)
    stored = await notifications.get(stage.pool, answer.notification_id)
    assert stored is not None
    assert stored.expires_at is None


async def test_an_old_version_is_stored_as_it_came(stage: Stage) -> None:
    notification_id = await stage.accept(version=1, payload={"customerName": "Ali"})

    stored = await notifications.get(stage.pool, notification_id)
    assert stored is not None
    assert (stored.version, msgspec.json.decode(stored.payload)) == (1, {"customerName": "Ali"})


async def test_a_large_request_is_written_in_parts_and_in_order(stage: Stage) -> None:
    users = [f"user{number}" for number in range(400)]
    intents = [an_intent(*users, idempotency_key=f"k{number}") for number in range(7)]

    answers = await accept(stage, *intents)

    ids = [answer.notification_id for answer in answers if isinstance(answer, Accepted)]
    assert len(ids) == 7
    transactions = [
        await stage.pool.fetchval(
            "select array_agg(distinct xmin::text) from deliveries where notification_id = $1", each
        )
        for each in ids
    ]
    # A notification is one transaction; two of these fill one, so that seven take four.
    assert [len(each) for each in transactions] == [1] * 7
    assert len({each[0] for each in transactions}) == 4
    assert await stage.pool.fetchval("select count(*) from deliveries") == 7 * 400


async def test_the_memory_of_a_large_request_does_not_grow_with_its_deliveries(stage: Stage) -> None:
    users = [f"user{number}" for number in range(1_000)]
    intents = [an_intent(*users, idempotency_key=f"k{number}") for number in range(40)]
    await accept(stage, intents[0])

    tracemalloc.start()
    try:
        await accept(stage, *intents)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # All 40,000 at once took 30 MB.
    assert peak < 20_000_000
