"""What every provider owes the engine when the connection itself fails."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.providers.http.http2_peer import Http2Peer
from tests.providers.rig import NOW, Rig, send_to
from tests.providers.wire import Proxy
from tests.waiting import until
from tocsin.domain.delivery.message import Provider
from tocsin.domain.delivery.outcome import Outcome, Retry, Sent
from tocsin.sandbox import Hang, Latency


async def send_many(rig: Rig, provider: Provider, at: str, names: list[str]) -> list[Outcome]:
    return await asyncio.gather(*(send_to(rig, provider, name, at=at) for name in names))


def hanging(rig: Rig) -> int:
    return rig.stats.answers.get("HANG", 0)


class WireConformance:
    @pytest.fixture
    async def proxy(self, rig: Rig) -> AsyncIterator[Proxy]:
        async with Proxy(rig.address) as opened:
            yield opened

    async def test_a_reset_in_the_middle_of_a_batch_costs_only_what_was_not_answered(
        self, rig: Rig, proxy: Proxy
    ) -> None:
        provider = rig.provider(base_url=proxy.url, timeout_seconds=30.0)
        await send_to(rig, provider, "warm", at=proxy.url)
        rig.script("second", Hang())
        names = ["first", "second", "third"]
        batch = [rig.message_to(rig.target_at(name, proxy.url)) for name in names]

        sending = asyncio.create_task(provider.send(batch, now=NOW))
        await until(lambda: hanging(rig) == 1)
        proxy.reset()
        outcomes = await sending

        assert len(outcomes) == 3
        assert isinstance(outcomes[1], Retry)
        arrived = {received.target for received in rig.arrivals}
        for name, outcome in zip(names, outcomes, strict=True):
            assert isinstance(outcome, Retry) or (isinstance(outcome, Sent) and rig.key(name) in arrived)
        assert isinstance(await send_to(rig, provider, "second", at=proxy.url), Sent)

    async def test_a_reset_while_many_are_under_way_is_a_retry_for_those_not_answered(
        self, rig: Rig, proxy: Proxy
    ) -> None:
        provider = rig.provider(base_url=proxy.url, timeout_seconds=30.0)
        await send_to(rig, provider, "warm", at=proxy.url)
        stuck, free = [f"stuck{n}" for n in range(3)], [f"free{n}" for n in range(5)]
        for name in stuck:
            rig.script(name, Hang())

        waiting = asyncio.create_task(send_many(rig, provider, proxy.url, stuck))
        answered = await send_many(rig, provider, proxy.url, free)
        await until(lambda: hanging(rig) == 3)
        proxy.reset()

        assert all(isinstance(outcome, Sent) for outcome in answered)
        assert all(isinstance(outcome, Retry) for outcome in await waiting)
        assert isinstance(await send_to(rig, provider, "next", at=proxy.url), Sent)

    async def test_a_reset_among_the_answers_loses_none_and_repeats_none(
        self, rig: Rig, proxy: Proxy
    ) -> None:
        provider = rig.provider(base_url=proxy.url)
        await send_to(rig, provider, "warm", at=proxy.url)
        rig.faults.latency(Latency(0.05))
        proxy.reset_after(500)

        outcomes = await send_many(rig, provider, proxy.url, [f"phone{number}" for number in range(20)])

        assert proxy.resets == 1
        assert {type(outcome) for outcome in outcomes} <= {Sent, Retry}
        assert any(isinstance(outcome, Retry) for outcome in outcomes)
        assert rig.stats.duplicates == 0
        assert isinstance(await send_to(rig, provider, "next", at=proxy.url), Sent)

    async def test_a_service_that_went_away_is_a_retry_until_it_is_back(self, rig: Rig, proxy: Proxy) -> None:
        provider = rig.provider(base_url=proxy.url)
        assert isinstance(await send_to(rig, provider, "phone", at=proxy.url), Sent)

        proxy.refuse()
        proxy.reset()
        away = [await send_to(rig, provider, "phone", at=proxy.url) for _ in range(2)]
        await proxy.listen()

        assert all(isinstance(outcome, Retry) for outcome in away)
        assert isinstance(away[-1], Retry)
        assert away[-1].code == "network_error"
        assert isinstance(await send_to(rig, provider, "phone", at=proxy.url), Sent)

    async def test_a_closed_provider_holds_no_connection(self, rig: Rig, proxy: Proxy) -> None:
        provider = rig.build(base_url=proxy.url)
        await send_many(rig, provider, proxy.url, [f"phone{number}" for number in range(5)])
        assert proxy.open

        await provider.aclose()

        await until(lambda: proxy.open == 0)

    async def test_cancelled_sends_hold_no_connection_past_their_time_out(
        self, rig: Rig, proxy: Proxy
    ) -> None:
        """The HTTP client lets a cancelled request run on until its time-out, and no longer."""
        provider = rig.build(base_url=proxy.url, timeout_seconds=3.0)
        names = [f"phone{number}" for number in range(3)]
        for name in names:
            rig.script(name, Hang())
        sending = [asyncio.create_task(send_to(rig, provider, name, at=proxy.url)) for name in names]
        await until(lambda: hanging(rig) == 3)

        for each in sending:
            each.cancel()
        await asyncio.wait(sending)
        assert all(each.cancelled() for each in sending)
        await provider.aclose()
        # What a cancelled task raised holds on to the frames it went through, and so to their clients.
        del sending, each

        await until(lambda: proxy.open == 0)

    async def test_a_send_cancelled_while_it_connects_holds_no_connection_past_its_time_out(
        self, rig: Rig, proxy: Proxy
    ) -> None:
        provider = rig.build(base_url=proxy.url, timeout_seconds=2.0)
        proxy.stall()
        sending = asyncio.create_task(send_to(rig, provider, "phone", at=proxy.url))
        await until(lambda: proxy.open == 1)

        sending.cancel()
        await asyncio.wait([sending])
        assert sending.cancelled()
        await provider.aclose()
        del sending

        await until(lambda: proxy.open == 0)


class Http2Conformance:
    @pytest.fixture
    async def peer(self, rig: Rig) -> AsyncIterator[Http2Peer]:
        async with Http2Peer(rig.sandbox.ca_file.parent, rig.canned_answer, streams=3) as opened:
            yield opened

    @pytest.mark.parametrize("finish", [True, False])
    async def test_goaway_costs_no_answer_and_a_new_connection_is_used(
        self, rig: Rig, peer: Http2Peer, *, finish: bool
    ) -> None:
        provider = rig.provider(base_url=peer.url)
        assert isinstance(await send_to(rig, provider, "warm", at=peer.url), Sent)
        before = peer.connections
        peer.goaway_after(3, finish=finish)

        outcomes = await send_many(rig, provider, peer.url, [f"phone{number}" for number in range(12)])

        assert {type(outcome) for outcome in outcomes} <= {Sent, Retry}
        assert [type(outcome) for outcome in outcomes].count(Sent) == peer.answered - 1
        assert peer.answered > 3 or not finish
        assert isinstance(await send_to(rig, provider, "next", at=peer.url), Sent)
        assert peer.connections > before

    async def test_a_refused_stream_is_repeated_or_a_retry(self, rig: Rig, peer: Http2Peer) -> None:
        provider = rig.provider(base_url=peer.url)
        await send_to(rig, provider, "warm", at=peer.url)
        peer.refuse(1)

        outcome = await send_to(rig, provider, "phone", at=peer.url)

        assert isinstance(outcome, Sent | Retry)
        assert isinstance(await send_to(rig, provider, "phone", at=peer.url), Sent)

    async def test_streams_refused_again_and_again_are_a_retry(self, rig: Rig, peer: Http2Peer) -> None:
        provider = rig.provider(base_url=peer.url)
        await send_to(rig, provider, "warm", at=peer.url)
        peer.refuse(1_000)

        outcomes = await send_many(rig, provider, peer.url, [f"phone{number}" for number in range(5)])
        peer.refuse(0)

        assert all(isinstance(outcome, Retry) for outcome in outcomes)
        assert isinstance(await send_to(rig, provider, "phone", at=peer.url), Sent)

    async def test_a_service_that_allows_few_streams_gets_them_all(self, rig: Rig, peer: Http2Peer) -> None:
        provider = rig.provider(base_url=peer.url)
        await send_to(rig, provider, "warm", at=peer.url)

        outcomes = await send_many(rig, provider, peer.url, [f"phone{number}" for number in range(30)])

        assert all(isinstance(outcome, Sent) for outcome in outcomes)
        assert peer.answered == 31
        assert peer.most_open <= 3


class OneOriginConformance(Http2Conformance):
    """What providers owe that are called by the HTTP/2 client of our own."""

    async def test_a_refused_message_was_certainly_not_accepted(self, rig: Rig, peer: Http2Peer) -> None:
        provider = rig.provider(base_url=peer.url)
        await send_to(rig, provider, "warm", at=peer.url)
        peer.refuse(1_000)

        outcome = await send_to(rig, provider, "phone", at=peer.url)

        assert isinstance(outcome, Retry)
        assert (outcome.code, outcome.uncertain) == ("network_error", False)

    async def test_goaway_costs_no_message_that_the_service_did_not_get_to(
        self, rig: Rig, peer: Http2Peer
    ) -> None:
        provider = rig.provider(base_url=peer.url)
        await send_to(rig, provider, "warm", at=peer.url)
        peer.goaway_after(3, finish=True)
        batch = [rig.message_to(rig.target_at(f"phone{number}", peer.url)) for number in range(12)]

        outcomes = await provider.send(batch, now=NOW)

        assert [type(outcome) for outcome in outcomes] == [Sent] * 12
        assert peer.answered == 13

    async def test_what_was_accepted_before_the_service_left_is_uncertain(
        self, rig: Rig, peer: Http2Peer
    ) -> None:
        provider = rig.provider(base_url=peer.url)
        await send_to(rig, provider, "warm", at=peer.url)
        peer.goaway_after(3, finish=False)
        batch = [rig.message_to(rig.target_at(f"phone{number}", peer.url)) for number in range(12)]

        outcomes = await provider.send(batch, now=NOW)

        lost = [outcome for outcome in outcomes if isinstance(outcome, Retry)]
        assert [outcome.uncertain for outcome in lost] == [True] * 3
        assert peer.answered == 10
