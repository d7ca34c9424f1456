from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.delivery.backoff import Backoff, Exponential, Ladder, delay, parse_backoff, parse_duration

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

durations = st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(days=30))
randoms = st.floats(min_value=0, max_value=1, exclude_max=True)
attempts = st.integers(min_value=1, max_value=10_000)


@st.composite
def exponentials(draw: st.DrawFn) -> Exponential:
    low, high = sorted((draw(durations), draw(durations)))
    return Exponential(low, high, draw(st.floats(1, 100)), draw(st.floats(0, 1)))


ladders = st.lists(durations, min_size=1, max_size=8).map(lambda steps: Ladder(tuple(sorted(steps))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("1s", SECOND),
        ("5m", 5 * MINUTE),
        ("6h", 6 * HOUR),
        ("1d", DAY),
    ],
)
def test_durations_are_read(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "m", "1.5s", "-1s", "1 s", "1w", "1S", "\u0665s", "9999999999s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exponential(1s, 5m, 2, 0.2)", Exponential(SECOND, 5 * MINUTE, 2, 0.2)),
        (" exponential(500ms,1h,1.5,0) ", Exponential(SECOND / 2, HOUR, 1.5, 0)),
        ("exponential(1s, 5m)", Exponential(SECOND, 5 * MINUTE)),
        ("exponential(1s, 5m, 3)", Exponential(SECOND, 5 * MINUTE, 3)),
        (
            "ladder(1m, 5m, 15m, 1h, 6h, 1d)",
            Ladder((MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY)),
        ),
        ("ladder(1m)", Ladder((MINUTE,))),
    ],
)
def test_backoffs_are_read(text: str, expected: Backoff) -> None:
    assert parse_backoff(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a backoff"),
        ("linear(1s)", "is not a backoff"),
        ("exponential(1s)", "is not a backoff"),
        ("exponential(1s, 5m, 2, 0.2, 7)", "is not a backoff"),
        ("exponential(1s, 5m", "is not a backoff"),
        ("ladder()", "'' is not a duration"),
        ("ladder(1m, soon)", "'soon' is not a duration"),
        ("ladder(5m, 1m)", "must not get shorter"),
        ("ladder(0s)", "longer than 0"),
        ("ladder(31d)", "at most 30d"),
        ("exponential(5m, 1s)", "min <= max"),
        ("exponential(0s, 1s)", "0 < min"),
        ("exponential(1s, 5m, 0.5)", "factor .* not 0.5"),
        ("exponential(1s, 5m, nan)", "factor .* not nan"),
        ("exponential(1s, 5m, 2, 1.5)", "jitter .* not 1.5"),
        ("exponential(1s, 5m, much)", "'much' is not a number"),
    ],
)
def test_a_wrong_backoff_is_refused_and_the_reason_named(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_backoff(text)


def test_exponential_waits_double_up_to_the_longest() -> None:
    backoff = parse_backoff("exponential(1s, 10s, 2, 0)")
    assert [delay(backoff, attempt, 0.0) / SECOND for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_jitter_spreads_to_both_sides() -> None:
    backoff = parse_backoff("exponential(10s, 10s, 1, 0.2)")
    assert delay(backoff, 1, 0.0) == 8 * SECOND
    assert delay(backoff, 1, 0.5) == 10 * SECOND
    assert delay(backoff, 1, 0.999999) < 12 * SECOND


def test_the_last_step_of_a_ladder_repeats() -> None:
    backoff = parse_backoff("ladder(1m, 5m, 1h)")
    assert [delay(backoff, attempt, 0.9) for attempt in (1, 2, 3, 4, 99)] == [
        MINUTE,
        5 * MINUTE,
        HOUR,
        HOUR,
        HOUR,
    ]


def test_attempts_count_from_one() -> None:
    with pytest.raises(ValueError, match="count from 1"):
        delay(Ladder((SECOND,)), 0, 0.0)


@given(exponentials(), attempts, randoms)
def test_exponential_waits_stay_within_their_spread(
    backoff: Exponential, attempt: int, random: float
) -> None:
    rounding = timedelta(microseconds=1)
    wait = delay(backoff, attempt, random)
    assert backoff.min * (1 - backoff.jitter) - rounding <= wait
    assert wait <= backoff.max * (1 + backoff.jitter) + rounding
    assert wait >= timedelta(0)


@given(st.one_of(exponentials(), ladders), attempts, randoms)
def test_waits_never_get_shorter(backoff: Backoff, attempt: int, random: float) -> None:
    assert delay(backoff, attempt, random) <= delay(backoff, attempt + 1, random)


@given(exponentials(), attempts)
def test_a_higher_random_never_waits_less(backoff: Exponential, attempt: int) -> None:
    assert delay(backoff, attempt, 0.1) <= delay(backoff, attempt, 0.9)
