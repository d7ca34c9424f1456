"""What a stand-in counted: answers, deliveries and their duplicates, and rates."""

import time
from collections import deque

import msgspec

_SECONDS_KEPT = 3_600


class SecondCount(msgspec.Struct, frozen=True):
    """How much was counted within one second of Unix time."""

    second: int
    count: int


class Stats(msgspec.Struct, kw_only=True):
    """The counts at one moment.

    `per_second` counts answers; `messages_per_second` the messages that came in, accepted or not, and
    `most_messages_in_a_second` the most of them within any second, wherever it begins. Those two are
    counted for a provider that takes several messages with one request.
    """

    requests: int = 0
    answers: dict[str, int] = {}
    protocols: dict[str, int] = {}
    delivered: int = 0
    distinct_deliveries: int = 0
    duplicates: int = 0
    without_delivery_id: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    access_tokens_issued: int = 0
    per_second: list[SecondCount] = []
    messages_per_second: list[SecondCount] = []
    most_messages_in_a_second: int = 0


class Counters:
    """Counts requests, answers and deliveries; every distinct delivery id is kept."""

    def __init__(self) -> None:
        self._stats = Stats()
        self.clear()

    def clear(self) -> None:
        """Count from zero; requests under way stay counted as in flight."""
        self._stats = Stats(in_flight=self._stats.in_flight, most_in_flight=self._stats.in_flight)
        self._delivery_ids: set[str] = set()
        self._last_second: deque[tuple[float, int]] = deque()
        self._in_last_second = 0

    def start_request(self, protocol: str) -> None:
        """Count a request that came in."""
        stats = self._stats
        stats.requests += 1
        stats.protocols[protocol] = stats.protocols.get(protocol, 0) + 1
        stats.in_flight += 1
        stats.most_in_flight = max(stats.most_in_flight, stats.in_flight)

    def end_request(self) -> None:
        """Count a request as no longer in flight."""
        self._stats.in_flight -= 1

    def count_answer(self, code: str) -> None:
        """Count an answer by its code."""
        answers = self._stats.answers
        answers[code] = answers.get(code, 0) + 1
        _count(self._stats.per_second, time.time(), 1)

    def count_messages(self, count: int) -> None:
        """Count the messages of one request, accepted or not."""
        now = time.time()
        _count(self._stats.messages_per_second, now, count)
        self._last_second.append((now, count))
        self._in_last_second += count
        while self._last_second[0][0] <= now - 1:
            self._in_last_second -= self._last_second.popleft()[1]
        most = max(self._stats.most_messages_in_a_second, self._in_last_second)
        self._stats.most_messages_in_a_second = most

    def count_delivery(self, delivery_id: str | None) -> None:
        """Count a message that reached its target."""
        stats = self._stats
        stats.delivered += 1
        if delivery_id is None:
            stats.without_delivery_id += 1
        elif delivery_id in self._delivery_ids:
            stats.duplicates += 1
        else:
            self._delivery_ids.add(delivery_id)
            stats.distinct_deliveries += 1

    def count_access_token(self) -> None:
        """Count an access token that was issued."""
        self._stats.access_tokens_issued += 1

    def stats(self) -> Stats:
        """Return a copy of the counts of this moment."""
        return msgspec.convert(msgspec.to_builtins(self._stats), Stats)


def _count(seconds: list[SecondCount], now: float, count: int) -> None:
    second = int(now)
    if seconds and seconds[-1].second == second:
        seconds[-1] = SecondCount(second, seconds[-1].count + count)
        return
    seconds.append(SecondCount(second, count))
    del seconds[:-_SECONDS_KEPT]
