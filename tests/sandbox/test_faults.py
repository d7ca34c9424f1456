import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pyreqwest.exceptions import RequestError, RequestTimeoutError

from tests.providers.sandboxes import Caller, calling
from tests.waiting import until
from tocsin.sandbox import Chance, Cut, Hang, Latency, Outage, Pass, Quota, Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.faults.injector import FaultInjector, UnknownFaultCodeError
from tocsin.sandbox.faults.rules import Fault
from tocsin.sandbox.fcm.errors import REFUSALS

CODES = frozenset({"UNAVAILABLE"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="module")
async def running(folder: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=folder)) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox) as ready:
        yield ready


async def test_a_script_plays_its_steps_and_ends(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.script("t", Refuse("UNAVAILABLE", retry_after=7), Refuse("INTERNAL"), Pass())

    replies = [await caller.send({"token": "t"}) for _ in range(4)]

    assert [reply.status for reply in replies] == [503, 500, 200, 200]
    assert replies[0].headers["retry-after"] == "7"
    assert "retry-after" not in replies[1].headers
    assert sandbox.stats().answers == {"UNAVAILABLE": 1, "INTERNAL": 1, "OK": 2}


async def test_a_repeating_script_goes_on_until_taken_down(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.script("t", Refuse("UNREGISTERED"), repeat=True)

    assert [(await caller.send({"token": "t"})).status for _ in range(3)] == [404, 404, 404]
    assert (await caller.send({"token": "other"})).status == 200
    sandbox.faults.unscript("t")
    assert (await caller.send({"token": "t"})).status == 200


@pytest.mark.parametrize("code", sorted(REFUSALS))
async def test_every_code_can_be_scripted(sandbox: Sandbox, caller: Caller, code: str) -> None:
    sandbox.faults.script("t", Refuse(code))

    reply = await caller.send({"token": "t"})

    assert reply.status == reply.error["code"] == REFUSALS[code].status
    assert sandbox.stats().answers == {code: 1}


def test_an_unknown_code_is_refused_when_scripted() -> None:
    board = FaultInjector(codes=CODES)

    with pytest.raises(UnknownFaultCodeError, match="'BROKEN' is not known; use one of UNAVAILABLE"):
        board.script("t", Refuse("BROKEN"))
    with pytest.raises(UnknownFaultCodeError):
        board.chances(Chance(0.5, Refuse("BROKEN")))


def _throws(board: FaultInjector, times: int) -> list[Fault]:
    return [board.next_fault("t") for _ in range(times)]


def test_the_picture_shows_the_steps_still_to_come() -> None:
    board = FaultInjector(codes=CODES)
    board.script("once", Refuse("UNAVAILABLE"), Pass())
    board.script("forever", Refuse("UNAVAILABLE"), Pass(), repeat=True)

    for target in ("once", "forever"):
        board.next_fault(target)
    shown = board.active().scripts
    assert shown["once"].steps == (Pass(),)
    assert shown["forever"].steps == (Refuse("UNAVAILABLE"), Pass())

    board.next_fault("once")
    assert "once" not in board.active().scripts


def test_a_script_without_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        FaultInjector(codes=CODES).script("t")


def test_chances_strike_at_their_rate_and_repeat_with_the_seed() -> None:
    board, twin = FaultInjector(codes=CODES, seed=5), FaultInjector(codes=CODES, seed=5)
    fault = Refuse("UNAVAILABLE")
    board.chances(Chance(0.25, fault))
    twin.chances(Chance(0.25, fault))

    thrown = _throws(board, 4_000)

    assert 850 < thrown.count(fault) < 1_150
    assert thrown == _throws(twin, 4_000)


def test_a_scripted_step_comes_before_chance() -> None:
    board = FaultInjector(codes=CODES)
    board.chances(Chance(1, Refuse("UNAVAILABLE")))
    board.script("t", Pass())

    assert _throws(board, 2) == [Pass(), Refuse("UNAVAILABLE")]


def test_latency_is_fixed_or_spread() -> None:
    board = FaultInjector(codes=CODES)
    assert board.delay() == 0
    board.latency(Latency(0.05))
    assert board.delay() == 0.05
    board.latency(Latency(0.1, 0.2))
    delays = [board.delay() for _ in range(100)]
    assert 0.1 <= min(delays) < 0.12
    assert 0.18 < max(delays) <= 0.2


async def test_answers_take_as_long_as_the_latency_says(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.latency(Latency(0.2))
    loop = asyncio.get_running_loop()
    began = loop.time()

    sending = asyncio.create_task(caller.send({"token": "t"}))
    await until(lambda: sandbox.phones.count == 1)
    assert not sending.done()
    assert sandbox.stats().in_flight == 1

    assert (await sending).status == 200
    assert loop.time() - began >= 0.2
    assert sandbox.stats().in_flight == 0


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("delivered", [False, True])
async def test_a_hanging_request_ends_by_the_callers_time_out(
    sandbox: Sandbox, *, secure: bool, delivered: bool
) -> None:
    sandbox.faults.script("t", Hang(delivered=delivered))
    async with calling(sandbox, secure=secure, timeout_seconds=0.3) as caller:
        with pytest.raises(RequestTimeoutError):
            await caller.send({"token": "t"})
        assert (await caller.send({"token": "t"})).status == 200

    assert sandbox.phones.count == (2 if delivered else 1)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("delivered", [False, True])
async def test_a_cut_breaks_the_answer_off(sandbox: Sandbox, *, secure: bool, delivered: bool) -> None:
    sandbox.faults.script("t", Cut(delivered=delivered))
    async with calling(sandbox, secure=secure) as caller:
        with pytest.raises(RequestError):
            await caller.send({"token": "t"})
        assert (await caller.send({"token": "t"})).status == 200

    assert sandbox.phones.count == (2 if delivered else 1)


async def test_closing_lets_hanging_requests_go(folder: Path) -> None:
    async with contextlib.AsyncExitStack() as exits:
        sandbox = Sandbox(SandboxSettings(folder=folder))
        async with sandbox:
            caller = await exits.enter_async_context(calling(sandbox))
            sandbox.faults.script("t", Hang(delivered=True))
            sending = asyncio.create_task(caller.send({"token": "t"}))
            await until(lambda: sandbox.phones.count == 1)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 3
        with contextlib.suppress(RequestError):
            await sending


async def test_the_project_quota_refuses_what_is_over(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.project_quota(Quota(2, per_seconds=60))

    replies = [await caller.send({"token": f"t{number}"}) for number in range(3)]

    assert [reply.status for reply in replies] == [200, 200, 429]
    assert (replies[2].error["status"], replies[2].fcm_code) == ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
    assert replies[2].detail("QuotaFailure")["violations"][0]["subject"] == "project"
    assert 1 <= int(replies[2].headers["retry-after"]) <= 60
    sandbox.faults.project_quota(None)
    assert (await caller.send({"token": "t0"})).status == 200


async def test_the_device_quota_slows_that_device_only(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.device_quota(Quota(1, per_seconds=60, retry_after=9))

    replies = [await caller.send({"token": token}) for token in ("a", "a", "b")]

    assert [reply.status for reply in replies] == [200, 429, 200]
    assert replies[1].fcm_code == "QUOTA_EXCEEDED"
    assert replies[1].detail("QuotaFailure")["violations"][0]["subject"] == "device"
    assert replies[1].headers["retry-after"] == "9"


def test_a_quota_opens_again_with_its_next_window() -> None:
    now = 100.0
    board = FaultInjector(codes=CODES, clock=lambda: now)
    board.project_quota(Quota(1, per_seconds=10))

    assert board.take_project_quota("p") is None
    now = 104.5
    assert board.take_project_quota("p") == 6
    assert board.take_project_quota("other") is None
    now = 110.0
    assert board.take_project_quota("p") is None


async def test_an_outage_refuses_everything_until_lifted(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.outage(Outage(retry_after=3))

    down = await caller.send({"token": "t"})
    assert (down.status, down.fcm_code, down.headers["retry-after"]) == (503, "UNAVAILABLE", "3")
    assert (await caller.authorize(sandbox.service_account(secure=False))).status == 200

    sandbox.faults.outage(None)
    assert (await caller.send({"token": "t"})).status == 200


async def test_an_outage_may_cover_the_token_endpoint(sandbox: Sandbox, caller: Caller) -> None:
    sandbox.faults.outage(Outage(covers="tokens"))

    assert (await caller.authorize(sandbox.service_account(secure=False))).status == 503
    assert (await caller.send({"token": "t"})).status == 200
    sandbox.faults.outage(Outage(covers="everything"))
    assert (await caller.send({"token": "t"})).status == 503


def test_an_outage_may_end_by_itself() -> None:
    now = 100.0
    board = FaultInjector(codes=CODES, clock=lambda: now)
    board.outage(Outage(seconds=5))

    now = 104.9
    assert board.outage_of("messages") == Outage(seconds=5)
    now = 105.0
    assert board.outage_of("messages") is None
    assert board.active().outage is None
