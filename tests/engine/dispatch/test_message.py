"""The shipped general type: nothing to declare, and its payload chooses the category."""

from typing import Any

from tests.engine.stage import Stage, StubProvider
from tests.waiting import until

TEXTS = {"title": "New comment", "body": "Ada wrote: <hi>"}


async def message(stage: Stage, key: str, **changes: Any) -> Any:
    payload = TEXTS | changes.pop("payload", {})
    return await stage.accept("ada", type="message", payload=payload, idempotency_key=key, **changes)


async def test_a_message_reaches_the_phone_with_its_texts_route_and_data(stage: Stage) -> None:
    await stage.device("ada")
    provider = StubProvider()
    async with stage.working(provider):
        rich = {"category": "newComment", "route": "/comments/7", "data": {"comment_id": 7, "tags": ["a"]}}
        await stage.settled(await message(stage, "1", payload=rich), "sent")

    (arrived,) = provider.arrived
    assert (arrived.title, arrived.body) == (TEXTS["title"], TEXTS["body"])
    assert arrived.appearance.route == "/comments/7"
    assert arrived.data["category"] == "newComment"
    assert arrived.data["data"] == '{"comment_id": 7, "tags": ["a"]}'


async def test_the_choice_about_the_category_of_the_payload_counts(stage: Stage) -> None:
    await stage.device("ada")
    await stage.pool.execute(
        "insert into preferences (user_id, choices, updated_at) values "
        '(\'ada\', \'{"newComment": {"push": false}, "general": {"push": false}}\', now())'
    )
    async with stage.working(StubProvider()):
        refused = await message(stage, "1", payload={"category": "newComment"})
        default = await message(stage, "2")
        wanted = await message(stage, "3", payload={"category": "workoutAssigned"})
        await stage.settled(refused, "skipped")
        await stage.settled(default, "skipped")
        await stage.settled(wanted, "sent")


async def test_messages_replace_each_other_only_within_a_category(stage: Stage) -> None:
    await stage.device("ada")
    await stage.pool.execute(
        "insert into preferences (user_id, choices, updated_at) values "
        "('ada', '{\"newComment\": {\"push\": false}}', now())"
    )
    older = await message(stage, "1", payload={"category": "workoutAssigned"}, collapse_key="c")
    newer = await message(stage, "2", payload={"category": "newComment"}, collapse_key="c")
    provider = StubProvider()
    async with stage.working(provider):
        await stage.settled(newer, "skipped")
        await stage.settled(older, "sent")
        await until(lambda: len(provider.arrived) == 1)
