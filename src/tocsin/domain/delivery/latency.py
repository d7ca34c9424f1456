"""The time until a delivery is sent, as a histogram whose buckets grow with it."""

from collections.abc import Mapping
from datetime import timedelta
from math import log2

LAST_BUCKET = 127
"""The bucket of everything longer than 49 days."""
_PER_OCTAVE = 4


def bucket_of(elapsed: timedelta) -> int:
    """Return the bucket of a time: a quarter of an octave of milliseconds, the first up to 1.19 ms."""
    # Clocks differ by a little: what was sent before it was accepted was sent at once.
    milliseconds = elapsed.total_seconds() * 1_000
    bucket = int(log2(milliseconds) * _PER_OCTAVE) if milliseconds > 1 else 0
    return min(LAST_BUCKET, bucket)


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """Return the seconds within which a share of a histogram was sent; None if it is empty.

    A time is known by its bucket, which is 19 % wide; within one, times count as evenly spread.
    """
    wanted = share * sum(counts.values())
    below = 0
    for bucket, count in sorted(counts.items()):
        if count and below + count >= wanted:
            return float(2 ** ((bucket + (wanted - below) / count) / _PER_OCTAVE)) / 1_000
        below += count
    return None
