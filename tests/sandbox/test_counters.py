"""What a stand-in counts, without a server around it."""

import pytest

from tocsin.sandbox import counters
from tocsin.sandbox.counters import Counters, SecondCount


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


def test_answers_are_counted_by_the_second(clock: list[float]) -> None:
    counting = Counters()
    for later in (0.0, 0.9, 1.0, 5.5):
        clock[0] = 1_000 + later
        counting.count_answer("OK")

    assert counting.stats().per_second == [
        SecondCount(1_000, 2),
        SecondCount(1_001, 1),
        SecondCount(1_005, 1),
    ]
    assert counting.stats().answers == {"OK": 4}


def test_seconds_do_not_fill_memory(clock: list[float]) -> None:
    counting = Counters()
    for second in range(counters._SECONDS_KEPT + 10):
        clock[0] = 1_000 + second
        counting.count_answer("OK")
        counting.count_messages(0)

    for seconds in (counting.stats().per_second, counting.stats().messages_per_second):
        assert len(seconds) == counters._SECONDS_KEPT
        assert (seconds[0].second, seconds[-1].second) == (1_010, 1_009 + counters._SECONDS_KEPT)


@pytest.mark.usefixtures("clock")
def test_the_counts_of_a_moment_do_not_change() -> None:
    counting = Counters()
    counting.start_request("2")
    counting.count_answer("OK")
    counting.count_messages(3)
    before = counting.stats()
    was = repr(before)

    counting.start_request("1.1")
    counting.count_answer("OK")
    counting.count_messages(4)
    counting.count_delivery("a")

    assert repr(before) == was
    assert counting.stats().most_messages_in_a_second == 7


def test_requests_under_way_stay_counted_when_counts_are_cleared() -> None:
    counting = Counters()
    for protocol in ("2", "2", "1.1"):
        counting.start_request(protocol)
    counting.end_request()
    assert counting.stats().requests == 3
    assert counting.stats().protocols == {"2": 2, "1.1": 1}

    counting.clear()

    stats = counting.stats()
    assert (stats.requests, stats.in_flight, stats.most_in_flight) == (0, 2, 2)
    counting.end_request()
    counting.start_request("2")
    assert counting.stats().most_in_flight == 2


def test_a_delivery_id_that_came_before_is_a_duplicate() -> None:
    counting = Counters()
    for delivery_id in ("a", "b", "a", None):
        counting.count_delivery(delivery_id)

    stats = counting.stats()
    assert (stats.delivered, stats.distinct_deliveries) == (4, 2)
    assert (stats.duplicates, stats.without_delivery_id) == (1, 1)
