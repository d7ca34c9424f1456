"""What every provider owes the engine, written once and inherited by each provider's tests.

A provider's own test class inherits `ProviderConformance`, and `Http2Conformance` too if it speaks HTTP/2, or
`OneOriginConformance` if it does so by our own client, and gives a `rig` fixture. The rig knows how to build
the provider against the sandbox and by which of its own errors the sandbox says what.
"""

import asyncio
import logging

import pytest
import structlog

from tests.providers.http.http2_peer import CannedAnswer
from tests.providers.isolation_conformance import IsolationConformance
from tests.providers.rig import NOW, UNREACHABLE, Rig, a_message, send_one, send_to
from tests.providers.wire import Address
from tests.providers.wire_conformance import Http2Conformance, OneOriginConformance, WireConformance
from tests.waiting import until
from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry, Sent
from tocsin.sandbox import Cut, Hang, Latency
from tocsin.sandbox.faults.rules import Fault

__all__ = [
    "NOW",
    "UNREACHABLE",
    "Address",
    "CannedAnswer",
    "Http2Conformance",
    "OneOriginConformance",
    "ProviderConformance",
    "Rig",
    "a_message",
    "send_one",
    "send_to",
]

QUOTA_CODES = {"QUOTA_EXCEEDED", "TOO_MANY_REQUESTS"}


class ProviderConformance(WireConformance, IsolationConformance):
    async def test_it_says_who_it_is_and_what_it_takes(self, rig: Rig) -> None:
        provider = rig.provider(concurrency=7)

        assert provider.name
        assert provider.concurrency == 7
        assert provider.limits.batch >= 1
        assert provider.limits.payload_bytes >= 1_000
        assert provider.limits.ttl_seconds >= 0

    async def test_a_message_that_was_taken_arrives_and_has_a_name(self, rig: Rig) -> None:
        message = rig.message("phone")

        (outcome,) = await rig.provider().send([message], now=NOW)

        assert isinstance(outcome, Sent)
        assert outcome.message_id
        (arrived,) = rig.arrivals
        assert arrived.target == rig.key("phone")
        assert arrived.delivery_id == str(message.delivery_id)

    async def test_each_message_has_its_outcome_in_order(self, rig: Rig) -> None:
        rig.script("gone", rig.gone, repeat=True)
        rig.script("rejected", rig.rejected, repeat=True)
        rig.script("busy", rig.busy, repeat=True)
        targets = ["first", "gone", "rejected", "second", "busy", "third"]

        outcomes = await rig.provider().send([rig.message(target) for target in targets], now=NOW)

        assert [type(outcome) for outcome in outcomes] == [Sent, Gone, Rejected, Sent, Retry, Sent]

    async def test_nothing_to_send_is_no_outcome(self, rig: Rig) -> None:
        assert list(await rig.provider().send([], now=NOW)) == []

    async def test_a_busy_service_is_left_alone_as_long_as_it_asks(self, rig: Rig) -> None:
        rig.script("phone", rig.busy)

        outcome = await send_to(rig, rig.provider(), "phone")

        assert isinstance(outcome, Retry)
        assert outcome.after == rig.busy_after

    async def test_a_used_up_quota_defers_and_pauses_the_provider(self, rig: Rig) -> None:
        if rig.quota is None:
            assert not QUOTA_CODES & rig.faults.codes, "the stand-in knows a quota that the rig leaves out"
            return
        rig.script("phone", rig.quota)

        outcome = await send_to(rig, rig.provider(), "phone")

        assert isinstance(outcome, Defer)
        assert outcome.pauses
        assert outcome.after == rig.quota_after

    async def test_it_does_not_try_again_by_itself(self, rig: Rig) -> None:
        rig.script("phone", rig.busy)

        await send_to(rig, rig.provider(), "phone")

        assert rig.stats.requests == 1

    async def test_a_service_that_does_not_answer_is_a_retry(self, rig: Rig) -> None:
        provider = rig.provider(timeout_seconds=0.3)
        await send_to(rig, provider, "warm")
        rig.script("phone", Hang())

        outcome = await send_to(rig, provider, "phone")

        assert isinstance(outcome, Retry)
        assert outcome.code == "timeout"
        assert outcome.uncertain

    async def test_an_answer_that_breaks_off_is_a_retry(self, rig: Rig) -> None:
        rig.script("phone", Cut())

        outcome = await send_to(rig, rig.provider(), "phone")

        assert isinstance(outcome, Retry)
        assert outcome.uncertain

    async def test_a_refused_connection_is_a_retry(self, rig: Rig) -> None:
        outcome = await send_to(rig, rig.provider(base_url=UNREACHABLE), "phone", at=UNREACHABLE)

        assert isinstance(outcome, Retry)
        assert outcome.code == "network_error"
        assert not outcome.uncertain

    async def test_it_goes_on_after_each_fault(self, rig: Rig) -> None:
        provider = rig.provider()
        rig.script("phone", rig.busy, Cut(), rig.rejected)

        outcomes = [await send_to(rig, provider, "phone") for _ in range(4)]

        assert isinstance(outcomes[-1], Sent)

    async def test_what_is_too_large_is_refused_before_it_is_sent(self, rig: Rig) -> None:
        provider = rig.provider()

        outcome = await send_to(rig, provider, "phone", body="ü" * provider.limits.payload_bytes)

        assert isinstance(outcome, Rejected)
        assert outcome.code == "payload_too_large"
        assert rig.stats.requests == 0

    async def test_texts_of_every_script_arrive_as_they_were(self, rig: Rig) -> None:
        title = 'مشتری جدید — "신규" 👩‍👩‍👧 \\ \u2028 \x7f'

        assert isinstance(await send_to(rig, rig.provider(), "phone", title=title), Sent)

        (arrived,) = rig.arrivals
        assert rig.title_of(arrived) == title

    async def test_many_messages_go_out_at_once_and_each_arrives_once(self, rig: Rig) -> None:
        provider = rig.provider(concurrency=150)
        rig.faults.latency(Latency(0.05))

        outcomes = await asyncio.gather(*(send_to(rig, provider, f"phone{number}") for number in range(150)))

        assert all(isinstance(outcome, Sent) for outcome in outcomes)
        stats = rig.stats
        assert (stats.delivered, stats.distinct_deliveries) == (150, 150)
        assert stats.most_in_flight > 20

    async def test_a_cancelled_send_leaves_no_task_behind(self, rig: Rig) -> None:
        provider = rig.provider(timeout_seconds=30.0)
        await send_to(rig, provider, "warm")
        rig.script("phone", Hang())
        sending = asyncio.create_task(send_to(rig, provider, "phone"))
        await until(lambda: "HANG" in rig.stats.answers)
        tasks = asyncio.all_tasks()

        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        assert asyncio.all_tasks() <= tasks - {sending}
        assert isinstance(await send_to(rig, provider, "phone"), Sent)

    async def test_a_target_shows_up_nowhere(self, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
        secret = "dev1ce-s3cret"
        caplog.set_level(logging.DEBUG)
        faults: list[Fault] = [rig.gone, rig.rejected, rig.busy, Cut(), *([rig.quota] if rig.quota else [])]
        rig.script(secret, *faults)
        provider = rig.provider()
        with structlog.testing.capture_logs() as lines:
            outcomes = [await send_to(rig, provider, secret) for _ in range(len(faults) + 1)]

        assert isinstance(outcomes[-1], Sent)
        told = [*map(repr, outcomes), repr(provider), repr(rig.message(secret)), repr(lines), caplog.text]
        hidden = {rig.target(secret), rig.key(secret)}
        assert not [text for text in told for each in hidden if each in text]
