"""The messages of a batch are answered one by one."""

import asyncio
from contextlib import aclosing
from unittest.mock import AsyncMock

import pytest
from hyperframe.frame import HeadersFrame, PingFrame, RstStreamFrame

from tests.providers.conformance import send_one
from tests.providers.fcm.rig import FcmRig
from tests.providers.http.h2.raw_peer import RawPeer
from tests.providers.rig import NOW, a_message
from tests.waiting import until
from tocsin.domain.delivery.outcome import Outcome, Rejected, Retry, Sent
from tocsin.http2.errors import ErrorCode
from tocsin.http2.frames import Setting
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


async def test_what_waits_after_a_refusal_is_not_sent_when_its_batch_is_cancelled(rig: FcmRig) -> None:
    """It waits behind messages that came after it in the batch."""
    async with RawPeer({Setting.MAX_CONCURRENT_STREAMS: 2}) as peer:
        provider = rig.build(base_url=peer.url)
        batch = [a_message(token) for token in ("refused", "under-way", "waiting")]
        async with aclosing(provider.send_each(batch, now=NOW)) as answers:
            first = asyncio.ensure_future(anext(answers))
            link = await peer.link()
            refused = await link.request()
            await link.request(2)
            # Its acknowledgement comes once the refusal was read.
            link.send(RstStreamFrame(refused, error_code=ErrorCode.REFUSED_STREAM), PingFrame(0, b"12345678"))
            await link.frame(PingFrame)
            first.cancel()
            await asyncio.wait([first])
        await provider.aclose()
        await link.end()

        streams = [each.stream_id for each in link.frames if isinstance(each, HeadersFrame)]
        assert [each for each in streams if b'"refused"' in link.body(each)] == [refused]


async def test_what_waits_is_not_sent_when_its_batch_is_cancelled_after_another(rig: FcmRig) -> None:
    """As a worker does that stops: it cancels every batch that is under way."""
    async with RawPeer({Setting.MAX_CONCURRENT_STREAMS: 2}) as peer:
        provider = rig.build(base_url=peer.url)
        batches = [[a_message("1"), a_message("2")], [a_message("3"), a_message("4")]]
        sending = [asyncio.ensure_future(provider.send(batch, now=NOW)) for batch in batches]
        link = await peer.link()
        await link.request(2)
        for each in sending:
            each.cancel()
        await asyncio.wait(sending)
        await provider.aclose()
        await link.end()

        assert len([each for each in link.frames if isinstance(each, HeadersFrame)]) == 2
