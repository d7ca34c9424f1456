"""The pace of a broadcast: how many people the next chunk has, and when it is written.

Claims go by due time, so what a broadcast has waiting in a lane is ahead of everybody else's later messages.
Backpressure keeps that short: a chunk has about as many people as the lanes take in `CHUNK_TIME`, and the
next one is written when half of the last one is left. So nobody waits for more than one and a half of them,
however fast or slow the providers are.
"""

from datetime import datetime, timedelta

CHUNK_TIME = timedelta(milliseconds=150)
SHORT_TIME, LONG_TIME = CHUNK_TIME * 2 / 3, CHUNK_TIME * 4 / 3
"""A chunk that was taken in less time is followed by a larger one, one that took more by a smaller one."""
LOOK_AGAIN = timedelta(milliseconds=20)
"""After what time the queues are looked at again while too much waits."""
TRICKLE_EVERY = timedelta(seconds=1)
"""How often a smallest chunk is written while others keep the queues long: a broadcast always proceeds."""
SMALLEST_CHUNK = 20
LARGEST_CHUNK = 1_000


def enough_waiting(size: int) -> int:
    """Return how many waiting messages are enough to keep the lanes busy, after a chunk of some size."""
    return size // 2


def next_chunk(size: int, written_at: datetime | None, waiting: int, now: datetime) -> int | None:
    """Return the size of the next chunk, or None if it has to wait.

    `size` is that of the last chunk, `written_at` its time, and `waiting` how many messages are due in the
    lanes and not claimed yet.
    """
    elapsed = now - written_at if written_at else TRICKLE_EVERY
    if waiting > enough_waiting(size):
        return SMALLEST_CHUNK if elapsed >= TRICKLE_EVERY else None
    if written_at is None:
        return size
    if elapsed < SHORT_TIME:
        return min(size + size // 2, LARGEST_CHUNK)
    if elapsed > LONG_TIME:
        return max(int(size * (CHUNK_TIME / elapsed)), SMALLEST_CHUNK)
    return size
