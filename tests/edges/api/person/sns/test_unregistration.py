"""Devices of Amazon SNS that go: their endpoints are deleted there, sooner or later."""

import asyncio
from datetime import timedelta

import pytest
import structlog

from tests.edges.api.person.sns.conftest import SnsEdge
from tests.waiting import until
from tocsin.engine.clock import utc_now
from tocsin.engine.retention.erase import Eraser
from tocsin.sandbox import Hang, Refuse
from tocsin.sandbox.sns.service import call_about


async def make_due(sns: SnsEdge) -> None:
    past = utc_now() - timedelta(seconds=1)
    await sns.pool.execute("update endpoint_deletions set due_at = $1, leased_until = $1", past)


async def standing_alarms(sns: SnsEdge) -> list[str]:
    rows = await sns.pool.fetch("select code from alarms where cleared_at is null")
    return [row["code"] for row in rows]


@pytest.mark.parametrize("by", ["endpoint_arn", "token", "device_id"])
async def test_an_unregistered_device_is_retired_and_its_endpoint_deleted(sns_edge: SnsEdge, by: str) -> None:
    answer = (await sns_edge.register("ada", "t1")).json()
    which = {"endpoint_arn": answer["endpoint_arn"], "token": "t1", "device_id": answer["device_id"]}

    gone = await sns_edge.unregister("ada", **{by: which[by]})
    await sns_edge.clean_up()

    assert gone.status_code == 200
    assert gone.json()["retired_reason"] == "unregistered"
    assert await sns_edge.active("ada") == []
    assert sns_edge.endpoint(answer["endpoint_arn"]) is None
    assert await sns_edge.deletions() == 0


async def test_nobody_unregisters_what_is_not_theirs(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")

    answers = [
        await sns_edge.unregister("bob", endpoint_arn=arn),
        await sns_edge.unregister("bob", token="t1"),
    ]
    await sns_edge.clean_up()

    assert {answer.status_code for answer in answers} == {404}
    assert sns_edge.endpoint(arn)
    assert len(await sns_edge.active("ada")) == 1


async def test_exactly_one_way_to_say_which(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")

    for which in ({}, {"token": "t1", "endpoint_arn": arn}):
        assert (await sns_edge.unregister("ada", **which)).status_code == 422


@pytest.mark.parametrize("fault", [Refuse("AuthorizationError"), Refuse("InternalError"), Hang()])
async def test_what_cannot_be_deleted_now_is_deleted_later(sns_edge: SnsEdge, fault: Refuse | Hang) -> None:
    arn = await sns_edge.arn("ada", "t1")
    sns_edge.sns.faults.script(call_about("DeleteEndpoint", arn), fault)

    assert (await sns_edge.unregister("ada", endpoint_arn=arn)).status_code == 200
    with structlog.testing.capture_logs() as lines:
        await sns_edge.clean_up()
    assert await sns_edge.active("ada") == []
    assert await sns_edge.deletions() == 1
    assert "endpoint not deleted" in {line["event"] for line in lines}
    assert arn not in repr(lines)
    await make_due(sns_edge)
    await sns_edge.clean_up()

    assert sns_edge.endpoint(arn) is None
    assert await sns_edge.deletions() == 0


async def test_one_that_fails_again_and_again_raises_an_alarm(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")
    sns_edge.sns.faults.script(call_about("DeleteEndpoint", arn), Refuse("AuthorizationError"), repeat=True)
    await sns_edge.unregister("ada", endpoint_arn=arn)

    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            await make_due(sns_edge)
            await sns_edge.clean_up()

    alarms = [line.get("alarm") for line in lines if line["event"] == "endpoint not deleted"]
    assert alarms == [None, None, None, None, True]
    assert await standing_alarms(sns_edge) == ["endpoint_not_deleted"]
    sns_edge.sns.faults.clear()
    await make_due(sns_edge)
    await sns_edge.clean_up()
    assert await standing_alarms(sns_edge) == []


async def test_a_device_registered_again_keeps_its_endpoint(sns_edge: SnsEdge) -> None:
    first = (await sns_edge.register("ada", "t1")).json()
    await sns_edge.unregister("ada", token="t1")

    again = (await sns_edge.register("ada", "t1")).json()
    await sns_edge.clean_up()

    assert (again["device_id"], again["endpoint_arn"]) == (first["device_id"], first["endpoint_arn"])
    assert sns_edge.endpoint(first["endpoint_arn"])
    assert await sns_edge.deletions() == 0


async def test_a_new_owner_keeps_the_endpoint_from_being_deleted(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")
    await sns_edge.unregister("ada", token="t1")

    assert await sns_edge.arn("bob", "t1") == arn
    await sns_edge.clean_up()

    assert sns_edge.endpoint(arn)
    assert len(await sns_edge.active("bob")) == 1


async def test_nothing_is_registered_on_an_endpoint_that_is_being_deleted(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")
    await sns_edge.unregister("ada", token="t1")
    await sns_edge.pool.execute(
        "update endpoint_deletions set leased_until = $1", utc_now() + timedelta(seconds=30)
    )

    answer = await sns_edge.register("ada", "t1")

    assert (answer.status_code, answer.json()["code"]) == (503, "push_service_unavailable")
    assert await sns_edge.deletions() == 1
    await make_due(sns_edge)
    await sns_edge.clean_up()
    assert await sns_edge.arn("ada", "t1") != arn


async def test_a_registration_that_fails_does_not_lose_the_deletion(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")
    await sns_edge.unregister("ada", token="t1")
    sns_edge.sns.faults.script(call_about("GetEndpointAttributes", arn), Refuse("InternalError"))

    assert (await sns_edge.register("ada", "t1")).status_code == 503
    assert await sns_edge.deletions() == 1
    await make_due(sns_edge)
    await sns_edge.clean_up()

    assert sns_edge.endpoint(arn) is None


async def test_erasing_a_person_deletes_their_endpoints_too(sns_edge: SnsEdge) -> None:
    active, retired = await sns_edge.arn("ada", "t1"), await sns_edge.arn("ada", "t2")
    kept = await sns_edge.arn("bob", "t3")
    await sns_edge.pool.execute(
        "update devices set retired_at = now(), retired_reason = 'not_seen' where token = $1", retired
    )

    erasure = await Eraser(sns_edge.pool, None, utc_now).erase("ada", "operator")
    await sns_edge.clean_up()

    assert erasure.devices == 2
    assert sns_edge.endpoint(active) is None
    assert sns_edge.endpoint(retired) is None
    assert sns_edge.endpoint(kept)
    assert await sns_edge.deletions() == 0


async def test_what_could_not_be_deleted_yet_can_be_registered_again(sns_edge: SnsEdge) -> None:
    arn = await sns_edge.arn("ada", "t1")
    sns_edge.sns.faults.script(call_about("DeleteEndpoint", arn), Refuse("InternalError"))
    await sns_edge.unregister("ada", token="t1")
    await sns_edge.clean_up()
    assert await sns_edge.deletions() == 1

    assert await sns_edge.arn("ada", "t1") == arn
    assert await sns_edge.deletions() == 0


async def test_nothing_is_deleted_while_its_token_is_registered(sns_edge: SnsEdge) -> None:
    """A registration that waits for SNS holds the deletion; if it fails, the deletion is due later."""
    arn = await sns_edge.arn("ada", "t1")
    await sns_edge.unregister("ada", token="t1")
    sns_edge.sns.faults.script(call_about("GetEndpointAttributes", arn), Hang())

    registering = asyncio.create_task(sns_edge.register("ada", "t1"))
    await until(lambda: "HANG" in sns_edge.sns.counters.stats().answers)
    await sns_edge.clean_up()
    assert sns_edge.endpoint(arn)
    assert (await registering).status_code == 503

    await make_due(sns_edge)
    await sns_edge.clean_up()
    assert sns_edge.endpoint(arn) is None
