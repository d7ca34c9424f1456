"""The provider token: shared by all messages, renewed in its window, replaced once when it is refused."""

import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.providers.apns.rig import HOUR, MINUTE, ApnsRig, rigged
from tests.providers.conformance import send_to
from tocsin.domain.delivery.outcome import Defer, Retry, Sent
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.apns.answers import UPDATES_REST
from tocsin.sandbox import Hang, Refuse, Sandbox, SandboxSettings


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
async def rig(running: Sandbox, tmp_path: Path) -> AsyncIterator[ApnsRig]:
    async with rigged(running, tmp_path) as made:
        yield made


async def test_one_provider_token_serves_all(rig: ApnsRig) -> None:
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()

    outcomes = await asyncio.gather(*(send_to(rig, provider, f"phone{number}") for number in range(20)))

    assert {type(outcome) for outcome in outcomes} == {Sent}


async def test_a_provider_token_lives_between_20_and_60_minutes(rig: ApnsRig) -> None:
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()

    for _ in range(180):
        rig.clock.ahead += MINUTE
        assert isinstance(await send_to(rig, provider, "phone"), Sent)

    assert rig.stats.answers == {"OK": 181}


async def test_a_pause_of_any_length_ends_with_a_fresh_token(rig: ApnsRig) -> None:
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()

    for hours in (1, 5, 100):
        rig.clock.ahead += hours * HOUR
        assert isinstance(await send_to(rig, provider, "phone"), Sent)


async def test_a_clock_that_is_set_back_does_not_leave_a_token_of_the_future(rig: ApnsRig) -> None:
    rig.stand_in.clock = rig.clock
    provider = await rig.proven_provider()
    rig.clock.ahead -= 2 * HOUR

    assert isinstance(await send_to(rig, provider, "phone"), Sent)


async def test_an_expired_token_is_signed_anew_once_and_the_message_sent(rig: ApnsRig) -> None:
    # The stand-in takes one new token and no more: all that are refused have to share it.
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()
    rig.clock.ahead += 30 * MINUTE
    for number in range(10):
        rig.script(f"phone{number}", Refuse("ExpiredProviderToken"))

    outcomes = await asyncio.gather(*(send_to(rig, provider, f"phone{number}") for number in range(10)))

    assert {type(outcome) for outcome in outcomes} == {Sent}
    assert rig.stats.answers == {"OK": 11, "ExpiredProviderToken": 10}


async def test_lasting_refusal_of_the_token_defers_and_alarms(rig: ApnsRig) -> None:
    provider = rig.provider()
    rig.script("phone", Refuse("ExpiredProviderToken"), repeat=True)

    outcomes = [await send_to(rig, provider, "phone") for _ in range(3)]

    assert outcomes == [Defer("ExpiredProviderToken", ALARM_REST, alarm=True)] * 3
    # The first is sent once more with a new token; that one is not replaced for 20 minutes.
    assert rig.stats.requests == 4


async def test_a_machine_whose_clock_is_hours_late_is_told_to_its_operator(rig: ApnsRig) -> None:
    rig.clock.ahead = -2 * HOUR

    outcome = await send_to(rig, rig.provider(), "phone")

    assert outcome == Defer("ExpiredProviderToken", ALARM_REST, alarm=True)


async def test_both_tries_keep_within_one_time_out(rig: ApnsRig) -> None:
    provider = await rig.proven_provider(timeout_seconds=1.0)
    rig.script("phone", Refuse("ExpiredProviderToken"), Hang())
    began = time.monotonic()

    outcome = await send_to(rig, provider, "phone")

    assert isinstance(outcome, Retry)
    assert outcome.code == "timeout"
    assert time.monotonic() - began < 1.9


async def test_too_many_updates_keep_the_old_token(rig: ApnsRig) -> None:
    rig.take_one_token_in_20_minutes()
    provider = await rig.proven_provider()
    rig.script("phone", Refuse("TooManyProviderTokenUpdates"))

    outcomes = [await send_to(rig, provider, "phone") for _ in range(2)]

    assert outcomes[0] == Defer("TooManyProviderTokenUpdates", UPDATES_REST)
    assert isinstance(outcomes[1], Sent)


@pytest.mark.parametrize("changes", [{"team_id": "OTHERTEAM1"}, {"key_id": "OTHERKEY01"}])
async def test_a_key_of_somebody_else_defers_and_alarms(rig: ApnsRig, changes: dict[str, str]) -> None:
    outcome = await send_to(rig, rig.provider(**changes), "phone")

    assert outcome == Defer("InvalidProviderToken", ALARM_REST, alarm=True)


async def test_tokens_and_keys_show_up_nowhere(rig: ApnsRig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    provider = await rig.proven_provider()
    rig.script("phone", Refuse("InvalidProviderToken"))

    outcome = await send_to(rig, provider, "phone")

    told = repr(outcome) + repr(provider) + repr(vars(provider)) + caplog.text
    header = base64.urlsafe_b64encode(b'{"alg":"ES256"').decode()[:16]
    assert header not in told
    assert rig.key_file.read_text().splitlines()[1] not in told
