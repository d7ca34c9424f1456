from collections.abc import AsyncIterator

import pytest

from tests.providers.conformance import NOW, UNREACHABLE
from tests.providers.expo.rig import ExpoRig, receipts_of, sent_ids, token
from tocsin.domain.delivery.outcome import Delivered, Gone, NotYet, Rejected, Retry
from tocsin.sandbox import Cut, Hang, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.expo.service import receipt_of
from tocsin.sandbox.faults.rules import Fault


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox) -> AsyncIterator[ExpoRig]:
    running.reset()
    made = ExpoRig(running)
    yield made
    await made.aclose()


async def test_receipts_come_in_the_order_asked_for(rig: ExpoRig) -> None:
    provider = rig.expo_provider()
    ids = await sent_ids(provider, "good", "gone", "big", "fine")
    rig.faults.script(receipt_of(token("gone")), Refuse("DeviceNotRegistered"))
    rig.faults.script(receipt_of(token("big")), Refuse("MessageTooBig"))

    answers = await receipts_of(provider, [ids[2], "unknown", ids[0], ids[1], ids[3], ids[0]])

    assert [type(answer) for answer in answers] == [Rejected, NotYet, Delivered, Gone, Delivered, Delivered]


async def test_a_receipt_that_is_not_there_yet_is_asked_for_again(rig: ExpoRig) -> None:
    provider = rig.expo_provider()
    rig.expo.tickets.receipts_after_seconds = 900.0
    (late,) = await sent_ids(provider, "phone")
    rig.expo.tickets.receipts_after_seconds = 0.0
    (quick,) = await sent_ids(provider, "phone")

    assert await receipts_of(provider, [late, quick]) == [NotYet(), Delivered()]


async def test_more_receipts_than_expo_gives_are_asked_for_in_parts(rig: ExpoRig) -> None:
    provider = rig.expo_provider()
    ids = await sent_ids(provider, "first", "last")
    asked = [ids[0], *(f"unknown{number}" for number in range(1_500)), ids[1]]

    answers = await receipts_of(provider, asked)

    assert len(answers) == len(asked)
    assert (answers[0], answers[-1]) == (Delivered(), Delivered())
    assert set(map(type, answers[1:-1])) == {NotYet}
    assert rig.stats.answers["PUSH_TOO_MANY_RECEIPTS"] == 1


@pytest.mark.parametrize("fault", [Cut(), Refuse("SERVICE_UNAVAILABLE", retry_after=7)])
async def test_receipts_of_which_a_part_cannot_be_had_are_none(rig: ExpoRig, fault: Fault) -> None:
    provider = rig.expo_provider()
    ids = await sent_ids(provider, "first", "last")
    rig.faults.script(receipt_of(token("last")), fault)

    whole = await provider.receipts([*(f"unknown{n}" for n in range(1_100)), *ids], now=NOW)

    assert isinstance(whole, Retry)


async def test_a_question_that_expo_refuses_leaves_the_messages_as_they_are(rig: ExpoRig) -> None:
    provider = rig.expo_provider()
    ids = await sent_ids(provider, "phone")
    rig.faults.script(receipt_of(token("phone")), Refuse("VALIDATION_ERROR"))

    whole = await provider.receipts(ids, now=NOW)

    assert isinstance(whole, Retry)
    assert await receipts_of(provider, ids) == [Delivered()]


async def test_receipts_out_of_reach_are_a_retry(rig: ExpoRig) -> None:
    whole = await rig.expo_provider(base_url=UNREACHABLE).receipts(["id"], now=NOW)

    assert isinstance(whole, Retry)
    assert whole.code == "network_error"


async def test_receipts_that_do_not_come_in_time_are_a_retry(rig: ExpoRig) -> None:
    provider = rig.expo_provider(timeout_seconds=0.3)
    ids = await sent_ids(provider, "phone")
    rig.faults.script(receipt_of(token("phone")), Hang())

    whole = await provider.receipts(ids, now=NOW)

    assert isinstance(whole, Retry)
    assert whole.code == "timeout"


async def test_no_receipts_asked_for_is_no_request(rig: ExpoRig) -> None:
    assert await rig.expo_provider().receipts([], now=NOW) == []
    assert rig.stats.requests == 0
