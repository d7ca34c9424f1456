"""Resolves host names that somebody outside chose, in threads that no other work waits for.

A name may take as long as its name server likes, and the system's resolver cannot be interrupted. So threads
are shared out: a name has one at most; a domain has a part of them, so have all the domains that were slow
last time, and some are kept for domains that were fast. A name waits for its turn outside the threads, and
only as long as somebody waits for it.
"""

import asyncio
import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

MOST_LOOKUPS = 256
MOST_PER_DOMAIN = 48
MOST_SLOW = 64
KEPT_FOR_FAST = 64
SLOW_SECONDS = 1.0
MOST_REMEMBERED = 4_096
_COUNTRY_CODE = 2
_LONGEST_SECOND_LEVEL = 3

Resolve = Callable[[str], Sequence[str]]


class _Lookup:
    """A name that is being resolved, or waits for its turn."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.domain = domain_of(host)
        self.found: Future[Sequence[str]] = Future()
        self.callers = 0
        self.was_fast: bool | None = None


class Resolver:
    """Shares the threads of lookups among domains."""

    def __init__(
        self,
        resolve: Resolve,
        *,
        threads: int = MOST_LOOKUPS,
        per_domain: int = MOST_PER_DOMAIN,
        slow: int = MOST_SLOW,
        kept_for_fast: int = KEPT_FOR_FAST,
    ) -> None:
        self._resolve = resolve
        self._per_domain = per_domain
        # By whether a domain was fast the last time: None if it was not resolved yet.
        self._most: dict[bool | None, int] = {True: threads, None: threads - kept_for_fast, False: slow}
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="lookup")
        # Callers are in event loops, and lookups end in their threads.
        self._changing = threading.Lock()
        self._lookups: dict[str, _Lookup] = {}
        self._waiting: OrderedDict[str, _Lookup] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._running_by_speed: Counter[bool | None] = Counter()
        self._was_fast: OrderedDict[str, bool] = OrderedDict()

    async def lookup(self, host: str) -> Sequence[str]:
        """Resolve a name; callers share a lookup.

        A caller that waits no longer leaves a running lookup to itself; one that waits for its turn with no
        caller left is dropped.
        """
        with self._changing:
            lookup = self._lookups.get(host)
            if lookup is None:
                lookup = self._lookups[host] = self._waiting[host] = _Lookup(host)
            lookup.callers += 1
            self._start_waiting()
        try:
            return await asyncio.shield(asyncio.wrap_future(lookup.found))
        finally:
            with self._changing:
                lookup.callers -= 1
                if not lookup.callers and self._waiting.get(host) is lookup:
                    del self._waiting[host], self._lookups[host]

    def _start_waiting(self) -> None:
        """Start what may have a thread now, in the order of the calls."""
        for lookup in list(self._waiting.values()):
            lookup.was_fast = self._was_fast.get(lookup.domain)
            if self._may_start(lookup):
                del self._waiting[lookup.host]
                self._running[lookup.domain] += 1
                self._running_by_speed[lookup.was_fast] += 1
                self._pool.submit(self._run, lookup)

    def _may_start(self, lookup: _Lookup) -> bool:
        running = self._running_by_speed
        return (
            self._running[lookup.domain] < self._per_domain
            and running.total() < self._most[True]
            and (lookup.was_fast or running[None] + running[False] < self._most[None])
            and running[lookup.was_fast] < self._most[lookup.was_fast]
        )

    def _run(self, lookup: _Lookup) -> None:
        started = time.monotonic()
        lookup.found.set_running_or_notify_cancel()
        try:
            found, error = self._resolve(lookup.host), None
        except Exception as raised:  # noqa: BLE001 - those who wait for it get it
            found, error = (), raised
        with self._changing:
            self._end(lookup, is_fast=time.monotonic() - started < SLOW_SECONDS)
        if error is None:
            lookup.found.set_result(found)
        else:
            lookup.found.set_exception(error)

    def _end(self, lookup: _Lookup, *, is_fast: bool) -> None:
        del self._lookups[lookup.host]
        self._running -= Counter([lookup.domain])
        self._running_by_speed[lookup.was_fast] -= 1
        self._was_fast[lookup.domain] = is_fast
        self._was_fast.move_to_end(lookup.domain)
        if len(self._was_fast) > MOST_REMEMBERED:
            self._was_fast.popitem(last=False)
        self._start_waiting()


def domain_of(host: str) -> str:
    """Return the part of a name whose owner has a name server: two labels, or three as in example.co.uk."""
    labels = host.lower().split(".")
    is_second_level = len(labels[-1]) == _COUNTRY_CODE and len(labels[-2:][0]) <= _LONGEST_SECOND_LEVEL
    return ".".join(labels[-3 if is_second_level else -2 :])


def system_resolve(host: str) -> Sequence[str]:
    """Resolve a name with the system's resolver, the best address first."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


system_lookup = Resolver(system_resolve).lookup
