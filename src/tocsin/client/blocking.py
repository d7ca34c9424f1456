"""The face for threads: Celery tasks, Flask and Django views, scripts."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from tocsin.client import calls, person_calls
from tocsin.client.address import checked_base_url, checked_secret
from tocsin.client.exchange import Link, Lost, Patience, Plan, Reply, Request, attempts
from tocsin.client.intents import Intent, Question
from tocsin.client.queue.blocking import BlockingQueue
from tocsin.client.queue.buffer import QueueLimits
from tocsin.client.signatures import in_words, shown_as
from tocsin.client.transport import HttpTransport, Place, Transport

P = ParamSpec("P")
T = TypeVar("T")


class Blocking:
    """Carries out plans in the caller's own thread."""

    def __init__(self, transport: Transport, link: Link) -> None:
        self._transport = transport
        self._link = link

    def _run(self, plan: Plan[T]) -> T:
        # Closed however it ends, so that an interrupted plan puts back what it holds.
        with contextlib.closing(attempts(plan, self._link)) as under_way:
            try:
                request = next(under_way)
                while True:
                    request = under_way.send(self._carry(request))
            except StopIteration as end:
                done: T = end.value
                return done

    def _carry(self, request: Request) -> Reply | Lost:
        if request.after:
            time.sleep(request.after)
        return self._transport.carry(request)


def _blocking(planned: Callable[P, Plan[T]]) -> Callable[Concatenate[Blocking, P], T]:
    """Make a plan a method that waits for its end."""

    def method(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(planned(*args, **kwargs))

    return shown_as(method, planned, planned.__name__)


def _queueing(made: Callable[P, Intent]) -> Callable[Concatenate["Tocsin", P], str]:
    def queue(self: "Tocsin", /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Queue an intent to be sent soon, together with others, and give its idempotency key."""
        intent = made(*args, **kwargs)
        self._queue.put(intent)
        return intent.key

    return shown_as(queue, made, "queue")


class Person(Blocking):
    """Tocsin as a person's own app meets it."""

    register_device = _blocking(person_calls.register_device)
    unregister_device = _blocking(person_calls.unregister_device)
    devices = _blocking(person_calls.devices)
    change_device = _blocking(person_calls.change_device)
    preferences = _blocking(person_calls.preferences)
    change_preferences = _blocking(person_calls.change_preferences)


class Tocsin(Blocking):
    """Tocsin as a producer meets it. Safe to share between threads; use it as a context manager or close it.

    A call lasts at most `deadline` seconds with all its retries, each attempt at most `timeout`.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 10.0,
        deadline: float = 30.0,
        retries: int = 5,
        ca_file: Path | None = None,
        queue_limits: QueueLimits | None = None,
        transport: Transport | None = None,
    ) -> None:
        place = Place(checked_base_url(base_url), ca_file)
        patience = Patience(timeout=timeout, deadline=deadline, retries=retries)
        super().__init__(
            transport or HttpTransport(place), Link(checked_secret("api_key", api_key), patience)
        )
        self._place = place
        self._queue = BlockingQueue(lambda buffer: self._run(buffer.drain()), queue_limits or QueueLimits())

    send = _blocking(in_words(calls.send, Intent))
    send_many = _blocking(calls.send_many)
    queue = _queueing(Intent)
    explain = _blocking(in_words(calls.explain, Question))
    show = _blocking(calls.show)
    cancel = _blocking(calls.cancel)
    cancel_by_key = _blocking(calls.cancel_by_key)
    reschedule = _blocking(calls.reschedule)
    put_user = _blocking(calls.put_user)
    get_user = _blocking(calls.get_user)

    def for_user(self, token: str) -> Person:
        """Speak for a person with the token of their app; connections are shared."""
        secret = checked_secret("the token", token)
        return Person(self._transport, Link(secret, self._link.patience))

    def flush(self) -> None:
        """Send what is queued now; raise if it cannot be sent or anything was refused since the last time."""
        self._queue.flush()

    def close(self) -> None:
        """Send what is queued and let go of every connection; raise with what could not be sent."""
        try:
            self._queue.close()
        finally:
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Name the address and leave the key out."""
        return f"{type(self).__name__}({self._place.base_url!r})"
