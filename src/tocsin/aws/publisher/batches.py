"""Messages in batches, as many as SNS takes at once."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from tocsin.aws.publisher.messages import LARGEST_MESSAGE

MOST_ENTRIES = 10

T = TypeVar("T")


def batches(sized: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Split items with their sizes into batches of at most ten, which together are as large as one may be."""
    batch: list[T] = []
    total = 0
    for item, size in sized:
        if batch and (len(batch) == MOST_ENTRIES or total + size > LARGEST_MESSAGE):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
