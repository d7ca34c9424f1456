"""The messages of a batch are answered one by one."""

import asyncio
from contextlib import aclosing
from unittest.mock import AsyncMock

import pytest

from tests.providers.conformance import send_one
from tests.providers.fcm.rig import FcmRig
from tests.providers.rig import NOW, a_message
from tests.waiting import until
from tocsin.domain.delivery.outcome import Outcome, Rejected, Retry, Sent
from tocsin.providers.fcm.google_auth import AccessTokens
from tocsin.providers.fcm.provider import FcmProvider
from tocsin.sandbox import Hang

STREAMS = 100
"""What the sandbox has at once on a connection."""


async def test_an_answer_does_not_wait_for_those_of_its_batch(rig: FcmRig) -> None:
    rig.sandbox.faults.script("slow", Hang())
    provider = rig.provider()
    assert isinstance(provider, FcmProvider)
    batch = [a_message("slow"), a_message("phone"), a_message("\ud800")]
    outcomes: dict[int, Outcome] = {}

    async with aclosing(provider.send_each(batch, now=NOW)) as answers:
        while len(outcomes) < 2:
            outcomes.update(await anext(answers))

    assert isinstance(outcomes[1], Sent)
    assert isinstance(outcomes[2], Rejected)


async def test_a_renewed_access_token_does_not_wait_for_those_of_its_batch(rig: FcmRig) -> None:
    provider = rig.provider()
    await send_one(provider, "phone")
    rig.sandbox.faults.script("slow", Hang())
    rig.sandbox.fcm.tokens.revoke_all()
    outcomes: dict[int, Outcome] = {}

    assert isinstance(provider, FcmProvider)
    batch = [a_message("slow"), a_message("phone"), a_message("tablet")]
    async with aclosing(provider.send_each(batch, now=NOW)) as answers:
        while len(outcomes) < 2:
            outcomes.update(await anext(answers))

    assert {place: type(outcome) for place, outcome in outcomes.items()} == {1: Sent, 2: Sent}
    assert rig.sandbox.stats().access_tokens_issued == 2


@pytest.mark.parametrize("raised", [LookupError("t0ken"), asyncio.CancelledError()])
async def test_what_fetching_an_access_token_raises_is_final_for_no_message(
    rig: FcmRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, raised: BaseException
) -> None:
    provider = rig.provider()
    monkeypatch.setattr(AccessTokens, "replace", AsyncMock(side_effect=raised))
    batch = [a_message("phone"), a_message("tablet")]

    unsent = await provider.send(batch, now=NOW)
    await provider.prepare()
    rig.sandbox.fcm.tokens.revoke_all()
    refused = await provider.send(batch, now=NOW)

    answered = [*unsent, *refused]
    assert [type(each) for each in answered] == [Retry] * 4
    assert {each.code for each in answered if isinstance(each, Retry)} == {"token_unavailable"}
    assert "t0ken" not in caplog.text


async def test_what_waits_for_a_stream_is_not_sent_when_its_batch_is_cancelled(rig: FcmRig) -> None:
    provider = rig.provider()
    await send_one(provider, "phone")
    assert isinstance(provider, FcmProvider)
    tokens = [f"slow-{number}" for number in range(300)]
    for token in tokens:
        rig.sandbox.faults.script(token, Hang())

    async with aclosing(provider.send_each([a_message(each) for each in tokens], now=NOW)) as answers:
        first = asyncio.ensure_future(anext(answers))
        await until(lambda: rig.sandbox.stats().in_flight == STREAMS)
        first.cancel()
        await asyncio.wait([first])

    await send_one(provider, "phone")
    assert rig.sandbox.stats().requests == 1 + STREAMS + 1
