"""The bench: an open-loop generator, and what a run is written as."""

import asyncio
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.contract import Chart, Curve, Reading
from bench.goals import race_readings
from bench.lines.steady import MEDIAN, Sample, Slice, compared
from bench.process import conversing
from bench.programs.open_loop import MOST_A_REQUEST, Load, arrivals, collected
from bench.race.machine import Machine
from bench.race.standing import Round, Standing
from bench.report.console import console
from bench.report.outcome import LineResult, Outcome
from bench.report.page import results_page

LOAD = Load(serial=7, rate=500.0, seconds=20.0, collect_seconds=0.0, first=0, users=10)
ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def test_arrivals_come_by_chance_at_the_rate_and_alike_in_every_run() -> None:
    times = list(arrivals(LOAD))

    assert times == sorted(times) == list(arrivals(LOAD))
    assert len(times) == pytest.approx(LOAD.rate * LOAD.seconds, rel=0.05)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    # Evenly spaced arrivals would have no gap of thrice the average; a Poisson process has one in twenty.
    assert sum(gap > 3 / LOAD.rate for gap in gaps) / len(gaps) == pytest.approx(0.05, abs=0.01)


@given(st.lists(st.floats(0, 10)).map(sorted), st.sampled_from([0.0, 0.01, 20.0]))
def test_a_request_collects_what_is_scheduled_soon_after_its_first_message(
    times: list[float], seconds: float
) -> None:
    groups = list(collected(iter(times), seconds))

    assert [at for group in groups for at in group] == times
    assert all(group[-1] - group[0] <= seconds for group in groups)


def test_a_request_has_no_more_messages_than_the_api_takes() -> None:
    groups = list(collected(iter([0.0] * (MOST_A_REQUEST + 1)), 1.0))

    assert [len(group) for group in groups] == [MOST_A_REQUEST, 1]


async def test_the_generator_keeps_its_schedule_while_nothing_is_answered(tmp_path: Path) -> None:
    load = msgspec.structs.replace(LOAD, rate=200.0, seconds=0.2)
    expected = len(list(arrivals(load)))
    bodies: list[bytes] = []
    all_came = asyncio.Event()

    async def answer_when_all_came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        [length] = re.findall(rb"content-length: (\d+)", head)
        bodies.append(await reader.readexactly(int(length)))
        if len(bodies) == expected:
            all_came.set()
        await all_came.wait()
        writer.write(ANSWER.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer_when_all_came, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        environment = {"BENCH_API": f"http://127.0.0.1:{port}", "BENCH_KEY": "key"}
        argv = [sys.executable, "-m", "bench.programs.open_loop"]
        async with asyncio.timeout(30), conversing(argv, environment, tmp_path / "log") as generator:
            await generator.ask(load)

    keys = [msgspec.json.decode(body)["idempotency_key"].split("-") for body in bodies]
    scheduled = sorted(int(micros) for _, _, micros in keys)
    gaps = [later - scheduled[0] for later in scheduled]
    planned = list(arrivals(load))
    assert gaps == pytest.approx([1e6 * (at - planned[0]) for at in planned], abs=3)


def test_ratios_are_printed_for_whole_rates_and_for_rates_per_core() -> None:
    readings = {each.name: each for each in race_readings(_standings())}

    assert readings["rate against bullmq-aof"].value == pytest.approx(2.0)
    assert readings["rate per core against bullmq-aof"].value == pytest.approx(4.0)
    assert readings["rate against Celery's best"].value == pytest.approx(10.0)
    for text in (console(_outcome()), results_page(_outcome(), "results.svg")):
        whole, per_core = (_row_after(text, head) for head in ("times the rate of", "times per core of"))
        assert re.findall(r"[\d.]+", whole) == ["2.00", "10.00", "20.00"]
        assert re.findall(r"[\d.]+", per_core) == ["4.00", "8.00", "2.00"]


def test_the_page_shows_the_chart_of_a_line() -> None:
    assert "![Latency](latency.svg)" in results_page(_outcome(), "results.svg")


def _row_after(text: str, head: str) -> str:
    lines: Iterator[str] = iter(text.splitlines())
    next(line for line in lines if head in line)
    return next(line for line in lines if line.lstrip("| ").startswith("tocsin"))


def _standings() -> list[Standing]:
    figures = {
        "tocsin": (1_000, 0.1),
        "bullmq-aof": (500, 0.4),
        "celery-threads": (100, 0.8),
        "celery": (50, 0.2),
    }
    return [
        Standing(
            name=name,
            title=name,
            setting="1",
            rounds=(
                Round(
                    setting="1",
                    messages=rate,
                    seconds=1.0,
                    cpu_seconds=cpu_millis * rate / 1_000,
                    sandbox_cpu_seconds=0.1,
                    elsewhere_cpu_seconds=0.0,
                ),
            ),
            trials=(),
            peak_bytes=1,
        )
        for name, (rate, cpu_millis) in figures.items()
    ]


def _outcome() -> Outcome:
    chart = Chart("latency", "Latency", "load", "ms", (Curve("p99", ((1.0, 2.0),)),))
    return Outcome(
        date="2026-01-01",
        command="python -m bench",
        machine=Machine(2, "a processor", 4.0, "Linux", "CPython", None),
        versions=(),
        latency_ms=50.0,
        standings=tuple(_standings()),
        left_out=(),
        lines=(LineResult("latency", "Latency", (Reading("p99", 1.0, "ms"),), (chart,)),),
    )


@pytest.mark.parametrize(("growth", "met"), [(0.0, True), (0.02, True), (0.1, False)])
def test_a_steady_load_is_held_against_its_own_first_half(growth: float, *, met: bool) -> None:
    sample = Sample(1.0, 1.0, 1, 1.0, 1.0, 1, 0)
    slices = [Slice(minute, 10.0 * (1 + growth * minute), 20.0, sample) for minute in range(12)]

    _, ratio = compared(slices, "median", "ms", MEDIAN, lambda each: each.median)

    assert ratio.value == pytest.approx((1 + 8.5 * growth) / (1 + 2.5 * growth))
    assert MEDIAN.met(ratio.value) == met
