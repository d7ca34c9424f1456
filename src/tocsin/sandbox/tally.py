"""What a sandbox counted: answers, deliveries and their duplicates, and the pace."""

import time
from collections import Counter, deque

import msgspec

_SECONDS_KEPT = 3_600
_ARRIVALS_KEPT = 10_000


class SecondCount(msgspec.Struct, frozen=True):
    """How many messages were answered within one second of Unix time."""

    second: int
    count: int


class Arrival(msgspec.Struct, frozen=True):
    """So many messages came in with one request, at a moment of Unix time."""

    at: float
    count: int


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The counts at one moment.

    `per_second` counts answers; `messages_per_second` the messages that came in, taken or not, and
    `most_messages_in_a_second` the most of them within any second, wherever it begins. Those two are
    counted for a provider that takes several messages with one request.
    """

    requests: int
    answers: dict[str, int]
    protocols: dict[str, int]
    delivered: int
    distinct_deliveries: int
    duplicates: int
    without_delivery_id: int
    in_flight: int
    most_in_flight: int
    access_tokens_issued: int
    per_second: list[SecondCount]
    messages_per_second: list[SecondCount]
    most_messages_in_a_second: int


class Tally:
    """Counts as requests come and go; one entry is kept for each distinct delivery id."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Start counting anew; requests under way stay counted as in flight."""
        self.access_tokens_issued = 0
        self._in_flight = getattr(self, "_in_flight", 0)
        self._most_in_flight = self._in_flight
        self._requests = 0
        self._answers: Counter[str] = Counter()
        self._protocols: Counter[str] = Counter()
        self._delivered = 0
        self._delivery_ids: set[str] = set()
        self._duplicates = 0
        self._without_delivery_id = 0
        self._seconds: deque[list[int]] = deque(maxlen=_SECONDS_KEPT)
        self._message_seconds: deque[list[int]] = deque(maxlen=_SECONDS_KEPT)
        self._last_second: deque[Arrival] = deque()
        self._in_last_second = 0
        self._most_in_a_second = 0
        self.arrivals: deque[Arrival] = deque(maxlen=_ARRIVALS_KEPT)

    def arrive(self, protocol: str) -> None:
        """Count a request that came in."""
        self._requests += 1
        self._protocols[protocol] += 1
        self._in_flight += 1
        self._most_in_flight = max(self._most_in_flight, self._in_flight)

    def leave(self) -> None:
        """Count a request as no longer under way."""
        self._in_flight -= 1

    def answer(self, code: str) -> None:
        """Count an answer by its code."""
        self._answers[code] += 1
        _count(self._seconds, int(time.time()), 1)

    def messages(self, count: int) -> None:
        """Count the messages that came in with one request, whatever becomes of them."""
        arrival = Arrival(time.time(), count)
        self.arrivals.append(arrival)
        _count(self._message_seconds, int(arrival.at), count)
        self._last_second.append(arrival)
        self._in_last_second += count
        while self._last_second[0].at <= arrival.at - 1:
            self._in_last_second -= self._last_second.popleft().count
        self._most_in_a_second = max(self._most_in_a_second, self._in_last_second)

    def deliver(self, delivery_id: str | None) -> None:
        """Count a message that reached its target."""
        self._delivered += 1
        if delivery_id is None:
            self._without_delivery_id += 1
        elif delivery_id in self._delivery_ids:
            self._duplicates += 1
        else:
            self._delivery_ids.add(delivery_id)

    def stats(self) -> Stats:
        """Show the counts of this moment."""
        return Stats(
            requests=self._requests,
            answers=dict(self._answers),
            protocols=dict(self._protocols),
            delivered=self._delivered,
            distinct_deliveries=len(self._delivery_ids),
            duplicates=self._duplicates,
            without_delivery_id=self._without_delivery_id,
            in_flight=self._in_flight,
            most_in_flight=self._most_in_flight,
            access_tokens_issued=self.access_tokens_issued,
            per_second=[SecondCount(second, count) for second, count in self._seconds],
            messages_per_second=[SecondCount(second, count) for second, count in self._message_seconds],
            most_messages_in_a_second=self._most_in_a_second,
        )


def _count(seconds: deque[list[int]], second: int, count: int) -> None:
    if seconds and seconds[-1][0] == second:
        seconds[-1][1] += count
    else:
        seconds.append([second, count])
