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
        self._in_flight = 0
        self.clear()

    def clear(self) -> None:
        """Count from zero; requests under way stay counted as in flight."""
        self._most_in_flight = self._in_flight
        self._protocols: dict[str, int] = {}
        self._answers: dict[str, int] = {}
        self._delivered = self._duplicates = self._without_delivery_id = 0
        self._delivery_ids: set[str] = set()
        self._access_tokens_issued = 0
        self._per_second: dict[int, int] = {}
        self._messages_per_second: dict[int, int] = {}
        self._most_messages_in_a_second = 0
        self._last_second: deque[tuple[float, int]] = deque()
        self._in_last_second = 0

    def start_request(self, protocol: str) -> None:
        """Count a request that came in."""
        protocols = self._protocols
        protocols[protocol] = protocols.get(protocol, 0) + 1
        self._in_flight += 1
        self._most_in_flight = max(self._most_in_flight, self._in_flight)

    def end_request(self) -> None:
        """Count a request as no longer in flight."""
        self._in_flight -= 1

    def count_answer(self, code: str) -> None:
        """Count an answer by its code."""
        answers = self._answers
        answers[code] = answers.get(code, 0) + 1
        _count(self._per_second, time.time(), 1)

    def count_messages(self, count: int) -> None:
        """Count the messages of one request, accepted or not."""
        now = time.time()
        _count(self._messages_per_second, now, count)
        self._last_second.append((now, count))
        self._in_last_second += count
        while self._last_second[0][0] <= now - 1:
            self._in_last_second -= self._last_second.popleft()[1]
        self._most_messages_in_a_second = max(self._most_messages_in_a_second, self._in_last_second)

    def count_delivery(self, delivery_id: str | None) -> None:
        """Count a message that reached its target."""
        self._delivered += 1
        if delivery_id is None:
            self._without_delivery_id += 1
        elif delivery_id in self._delivery_ids:
            self._duplicates += 1
        else:
            self._delivery_ids.add(delivery_id)

    def count_access_token(self) -> None:
        """Count an access token that was issued."""
        self._access_tokens_issued += 1

    def stats(self) -> Stats:
        """Return a copy of the counts of this moment."""
        return Stats(
            requests=sum(self._protocols.values()),
            answers=self._answers.copy(),
            protocols=self._protocols.copy(),
            delivered=self._delivered,
            distinct_deliveries=len(self._delivery_ids),
            duplicates=self._duplicates,
            without_delivery_id=self._without_delivery_id,
            in_flight=self._in_flight,
            most_in_flight=self._most_in_flight,
            access_tokens_issued=self._access_tokens_issued,
            per_second=_listed(self._per_second),
            messages_per_second=_listed(self._messages_per_second),
            most_messages_in_a_second=self._most_messages_in_a_second,
        )


def _count(seconds: dict[int, int], now: float, count: int) -> None:
    second = int(now)
    counted = seconds.get(second, 0)
    seconds[second] = counted + count
    if not counted and len(seconds) > _SECONDS_KEPT:
        del seconds[next(iter(seconds))]


def _listed(seconds: dict[int, int]) -> list[SecondCount]:
    return [SecondCount(second, count) for second, count in seconds.items()]
