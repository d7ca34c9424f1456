"""The pace of a broadcast: how many people the next chunk has, and when it is written.

Claims go by due time, so what a broadcast has waiting in a lane is ahead of everybody else's later messages.
This backpressure goes by the delay of that queue, not by its length: the next chunk is written only when
nothing has waited in a lane for longer than `LONGEST_DELAY`, however fast or slow its provider is. A chunk
has about as many people as the lanes took in that time before.
"""

from datetime import datetime, timedelta

LONGEST_DELAY = timedelta(milliseconds=200)
LOOK_AGAIN = timedelta(milliseconds=40)
"""After what time the queues are looked at again while they are too long."""
TRICKLE_EVERY = timedelta(seconds=1)
"""How often a smallest chunk is written while others keep the queues long: a broadcast always proceeds."""
SMALLEST_CHUNK = 20
LARGEST_CHUNK = 1_000


def next_chunk(size: int, written_at: datetime | None, delay: timedelta, now: datetime) -> int | None:
    """Return the size of the next chunk, or None if it has to wait.

    `size` is that of the last chunk, `written_at` its time, and `delay` how long the oldest message in the
    queues has waited.
    """
    if written_at is None:
        return size if delay <= LONGEST_DELAY else SMALLEST_CHUNK
    elapsed = now - written_at
    if delay > LONGEST_DELAY:
        return SMALLEST_CHUNK if elapsed >= TRICKLE_EVERY else None
    if elapsed < LONGEST_DELAY:
        return min(size * 2, LARGEST_CHUNK)
    if elapsed > LONGEST_DELAY * 2:
        # The last chunk took that long to be claimed.
        return max(int(size * (LONGEST_DELAY / elapsed)), SMALLEST_CHUNK)
    return size
