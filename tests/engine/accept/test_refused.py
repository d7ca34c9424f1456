"""What cannot be accepted: told why, recorded, and no one else's trouble."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.engine.accept.accepting import LAST, accept, alert, codes
from tests.engine.stage import Stage, an_intent
from tocsin.domain.faults import Fault
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.answers import Accepted, Duplicate, Unreadable
from tocsin.store import notifications
from tocsin.store.sources import refused
from tocsin.wire.answers import Invalid


async def test_what_is_refused_is_kept_with_its_faults(stage: Stage) -> None:
    unreadable = Unreadable(
        faults=[Fault(field="audience", code="missing", message="is required")],
        content='{"type": "x\x00"',
        type="x\x00",
        idempotency_key="k" * 500,
    )
    (first,) = await accept(stage, an_intent())
    await accept(
        stage, unreadable, an_intent(payload={"surplus": 1}, idempotency_key="bad"), an_intent("bob")
    )
    assert isinstance(first, Accepted)

    conflict, invalid, broken = await refused.list_recent(stage.pool, LAST, 10)

    assert (broken.code, broken.type, broken.idempotency_key) == ("invalid_intent", "x\ufffd", "k" * 200)
    assert broken.content == '{"type": "x\ufffd"'
    assert [fault["field"] for fault in msgspec.json.decode(broken.faults)] == ["audience"]
    assert (invalid.code, invalid.producer, invalid.source) == ("invalid_payload", "shop", "http")
    assert {fault["code"] for fault in msgspec.json.decode(invalid.faults)} == {"missing", "unknown"}
    assert msgspec.json.decode(invalid.content)["payload"] == {"surplus": 1}
    assert conflict.code == "idempotency_conflict"
    assert msgspec.json.decode(conflict.faults) == [{"notification_id": str(first.notification_id)}]


@pytest.mark.parametrize(
    ("intent", "expected"),
    [
        (an_intent(type="nothing\x00"), ["unknown_type"]),
        (an_intent(version=9), ["unknown_version"]),
        (an_intent(audience=Audience()), ["one_of"]),
        (an_intent(audience=Audience(admins=False)), ["invalid"]),
        (alert(text="a\x00b"), ["nul_character"]),
        (alert(**{"a\x00": 1}), ["nul_character"]),
        (alert(deep=[{"list": ["\x00"]}]), ["nul_character"]),
        (alert(text="x" * 70_000), ["too_large"]),
        (alert(number=2**53), ["not_canonical"]),
        (alert(number=2**70), ["not_canonical"]),
        (alert(number=-(2**64)), ["not_canonical"]),
        (alert(text="\ud800"), ["not_text"]),
        (alert(**{"\udfff": 1}), ["not_text"]),
        (an_intent(send_at=datetime(2100, 1, 1, tzinfo=UTC)), ["too_far"]),
        (an_intent(send_at=datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))), ["out_of_range"]),
        (an_intent(occurred_at=datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))), ["out_of_range"]),
    ],
    ids=range(16),
)
async def test_a_bad_intent_is_told_why_and_recorded(
    stage: Stage, intent: Intent, expected: list[str]
) -> None:
    (answer,) = await accept(stage, intent)

    assert codes(answer) == expected
    assert await stage.pool.fetchval("select count(*) from refused_intents") == 1
    assert await stage.pool.fetchval("select count(*) from notifications") == 0


async def test_a_long_number_is_shortened_in_the_message(stage: Stage) -> None:
    (answer,) = await accept(stage, alert(number=10**3_000))

    assert isinstance(answer, Invalid)
    (fault,) = answer.errors
    assert fault.code == "not_canonical"
    assert fault.message.startswith("has no canonical form: 1000")
    assert fault.message.endswith("0… exceeds safe integer domain for JSON floats")
    assert len(fault.message) < 200


@pytest.mark.parametrize("depth", [65, 300, 900])
async def test_a_payload_too_deep_is_refused(stage: Stage, depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = {"a": nested} if depth % 7 else [nested]

    (answer,) = await accept(stage, alert(nested=nested))

    assert codes(answer) == ["too_deep"]


async def test_every_fault_is_named_at_once(stage: Stage) -> None:
    (answer,) = await accept(
        stage,
        an_intent(audience=Audience(), payload={"a": 1}, send_at=datetime(2100, 1, 1, tzinfo=UTC)),
    )

    assert set(codes(answer)) == {"one_of", "missing", "unknown", "too_far"}


@pytest.mark.parametrize(
    "payload",
    [
        {"number": 0.1},
        {"number": 1e22},
        {"number": 5e-324},
        {"number": -0.0},
        {"number": 2**53 - 1},
        {"text": "😀\u2028\x7f\\u0000"},
        {"😀": {"\uffff": None}},
        {"list": [[[]], {}, "", None, True]},
        {},
    ],
    ids=repr,
)
async def test_an_odd_but_good_payload_is_kept_as_it_was(stage: Stage, payload: dict[str, Any]) -> None:
    (answer,) = await accept(stage, alert(**payload))

    assert isinstance(answer, Accepted)
    stored = await notifications.get(stage.pool, answer.notification_id)
    assert stored is not None
    assert msgspec.json.decode(stored.payload) == payload


async def test_a_float_and_its_integer_are_the_same_content(stage: Stage) -> None:
    (first,) = await accept(stage, alert(number=1))
    (again,) = await accept(stage, alert(number=1.0))

    assert isinstance(first, Accepted)
    assert again == Duplicate(first.notification_id)


async def test_a_value_the_database_will_not_have_fails_its_own_caller_only(stage: Stage) -> None:
    poison = an_intent(request_id="r\x00", idempotency_key="poison")
    calls = [accept(stage, an_intent(idempotency_key=f"fine{number}")) for number in range(5)]

    *fine, failed = await asyncio.gather(*calls, accept(stage, poison), return_exceptions=True)

    assert isinstance(failed, asyncpg.DataError)
    for answers in fine:
        assert isinstance(answers, list)
        assert isinstance(answers[0], Accepted)
    assert await stage.pool.fetchval("select count(*) from notifications") == 5


async def test_a_payload_just_deep_enough_is_kept(stage: Stage) -> None:
    nested: Any = 1
    for _ in range(63):
        nested = {"a": nested}

    (answer,) = await accept(stage, alert(nested=nested))

    assert isinstance(answer, Accepted)
