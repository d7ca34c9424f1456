"""The soak draws its events from a seed, and tells an allowed duplicate from another."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.soak.chaos import LONGEST_OUTAGE, schedule
from tests.soak.site import Span
from tests.soak.verdict import was_unsettled


def test_a_seed_repeats_its_events_and_another_has_others() -> None:
    assert schedule(7, 300) == schedule(7, 300) != schedule(8, 300)


@pytest.mark.parametrize("seed", range(50))
def test_every_soak_kills_and_cuts_off_within_bounds(seed: int) -> None:
    events = schedule(seed, 300)
    outages = [event.seconds for event in events if event.target == "database"]
    assert outages
    assert all(1 <= seconds <= LONGEST_OUTAGE for seconds in outages)
    assert {event.target for event in events} >= {"worker-1", "worker-2", "api", "relay"}


@pytest.mark.parametrize(
    ("kills", "outages", "allowed"),
    [
        pytest.param([], [], False, id="nothing happened"),
        pytest.param([("worker-1", 101.0)], [], True, id="killed before it could settle"),
        pytest.param([("api", 101.0)], [], False, id="another process killed"),
        pytest.param([("worker-1", 90.0)], [], False, id="killed long before"),
        pytest.param([("worker-1", 130.0)], [], False, id="killed long after"),
        pytest.param([], [(99.0, 150.0)], False, id="an outage alone: the worker remembers the answer"),
        pytest.param([("worker-2", 140.0)], [(99.0, 150.0)], True, id="killed during the outage"),
        pytest.param([("worker-2", 140.0)], [(20.0, 50.0)], False, id="killed after another outage"),
    ],
)
def test_a_duplicate_is_allowed_only_if_a_worker_died_before_it_settled(
    *, kills: list[tuple[str, float]], outages: list[tuple[float, float]], allowed: bool
) -> None:
    site: Any = SimpleNamespace(
        kills=[Span(name, at, at) for name, at in kills],
        outages=[Span("database", start, end) for start, end in outages],
    )
    assert was_unsettled(site, 100.0) is allowed
