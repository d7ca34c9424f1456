"""The pace of a broadcast: short queues, whatever the providers take."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.engine.broadcast.pace import (
    CHUNK_TIME,
    LARGEST_CHUNK,
    LOOK_AGAIN,
    SMALLEST_CHUNK,
    next_chunk,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def after(milliseconds: float) -> datetime:
    return NOW + timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("size", "milliseconds", "waiting", "expected"),
    [
        (20, 30, 10, 30),
        (1_000, 30, 0, LARGEST_CHUNK),
        (400, 150, 200, 400),
        (400, 600, 200, 100),
        (20, 5_000, 0, SMALLEST_CHUNK),
        (400, 30, 201, None),
        (400, 999, 201, None),
        (400, 1_000, 201, SMALLEST_CHUNK),
    ],
    ids=["grows", "no further", "stays", "shrinks", "no further down", "waits", "still waits", "trickles"],
)
def test_the_next_chunk(size: int, milliseconds: float, waiting: int, expected: int | None) -> None:
    assert next_chunk(size, NOW, waiting, after(milliseconds)) == expected


def test_the_first_chunk_waits_for_nobody_but_is_small_beside_a_backlog() -> None:
    assert next_chunk(SMALLEST_CHUNK, None, 0, NOW) == SMALLEST_CHUNK
    assert next_chunk(500, None, 251, NOW) == SMALLEST_CHUNK


@given(rate=st.floats(200, 6_000), seconds=st.floats(5, 10))
def test_a_lane_of_any_speed_is_kept_busy_and_its_queue_short(rate: float, seconds: float) -> None:
    """Simulate a lane that takes so many messages a second."""
    waiting, size, written_at, longest, idle, written = 0.0, SMALLEST_CHUNK, None, 0.0, 0.0, 0
    step = LOOK_AGAIN.total_seconds()
    for tick in range(int(seconds / step)):
        now = NOW + tick * LOOK_AGAIN
        chunk = next_chunk(size, written_at, int(waiting), now)
        if chunk is not None:
            waiting, size, written_at, written = waiting + chunk, chunk, now, written + chunk
        if tick * step > seconds / 2:
            longest = max(longest, waiting / rate)
            idle += max(0.0, step - waiting / rate)
        waiting = max(0.0, waiting - rate * step)

    assert longest <= 3 * CHUNK_TIME.total_seconds()
    assert idle <= 0.1 * seconds
