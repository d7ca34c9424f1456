from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tocsin.engine.dispatch.concurrency import FASTEST_OF, FIRST, ConcurrencyLimit

Latency = Callable[[int], float]


def run(limit: ConcurrencyLimit, latency: Latency, seconds: float, *, start: float = 0.0) -> float:
    """Keep a provider busy that needs `latency` for each of so many messages at once; return the time."""
    now = start
    while now < start + seconds:
        in_flight = limit.value
        limit.occupy(in_flight)
        now += latency(in_flight)
        for _ in range(in_flight):
            limit.record(1, latency(in_flight), now)
    return now


def steady(_: int) -> float:
    return 0.1


def crowded(capacity: float) -> Latency:
    """Answer in 50 ms until more come than a provider can take; after that they queue there."""
    return lambda in_flight: max(0.05, in_flight / capacity)


def test_it_starts_moderate_and_is_at_its_bound_within_a_second() -> None:
    limit = ConcurrencyLimit(1_000)
    assert limit.value == FIRST

    run(limit, steady, 1.0)

    assert limit.value == 1_000


def test_a_small_bound_holds_from_the_start() -> None:
    limit = ConcurrencyLimit(4)
    run(limit, steady, 5.0)
    assert limit.value == 4


def test_a_batch_always_has_room() -> None:
    assert ConcurrencyLimit(50, least=100).value == 100


def test_it_settles_where_the_provider_begins_to_queue() -> None:
    limit = ConcurrencyLimit(5_000)

    run(limit, crowded(2_000), 20.0)

    # 100 in flight keep it busy; at twice its latency there are 200.
    assert 100 <= limit.value <= 260


def test_it_follows_a_provider_that_becomes_slower_for_good() -> None:
    limit = ConcurrencyLimit(1_000)
    now = run(limit, steady, 5.0)

    now = run(limit, lambda _: 0.5, 30.0, start=now)
    assert limit.value < 1_000

    run(limit, lambda _: 0.5, 2 * FASTEST_OF, start=now)
    assert limit.value == 1_000


def test_an_idle_provider_gets_no_more_at_once() -> None:
    limit = ConcurrencyLimit(1_000)
    for number in range(1_000):
        limit.occupy(1)
        limit.record(1, 0.1, number / 10)
    assert limit.value == FIRST


def test_failures_of_the_provider_shrink_it() -> None:
    limit = ConcurrencyLimit(1_000)
    now = run(limit, steady, 5.0)
    for _ in range(1_000):
        limit.record(1, 0.0, now, failed=1)
    assert limit.value == 700

    for _ in range(20_000):
        limit.record(1, 0.0, now, failed=1)
    assert limit.value == 1

    run(limit, steady, 30.0, start=now)
    assert limit.value > 500


@given(
    most=st.integers(1, 2_000),
    least=st.integers(1, 200),
    answers=st.lists(
        st.tuples(st.integers(1, 200), st.floats(0, 60), st.integers(0, 200), st.integers(0, 3_000)),
        max_size=200,
    ),
)
def test_it_stays_within_its_bounds(
    most: int, least: int, answers: list[tuple[int, float, int, int]]
) -> None:
    limit = ConcurrencyLimit(most, least=least)
    for number, (messages, seconds, failed, in_flight) in enumerate(answers):
        limit.occupy(in_flight)
        limit.record(messages, seconds, float(number), failed=min(failed, messages))
        assert least <= limit.value <= max(most, least)
