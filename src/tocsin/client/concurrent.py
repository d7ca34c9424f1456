"""The face for event loops."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from tocsin.client import calls, person_calls
from tocsin.client.address import checked_base_url, checked_secret
from tocsin.client.exchange import Link, Lost, Patience, Plan, Reply, Request, attempts
from tocsin.client.intents import Intent, Question
from tocsin.client.queue.buffer import QueueLimits
from tocsin.client.queue.concurrent import ConcurrentQueue
from tocsin.client.signatures import in_words, shown_as
from tocsin.client.transport import AsyncHttpTransport, AsyncTransport, Place

P = ParamSpec("P")
T = TypeVar("T")


class Concurrent:
    """Carries out plans beside other work of the event loop."""

    def __init__(self, transport: AsyncTransport, link: Link) -> None:
        self._transport = transport
        self._link = link

    async def _run(self, plan: Plan[T]) -> T:
        # Closed however it ends, so that an interrupted plan puts back what it holds.
        with contextlib.closing(attempts(plan, self._link)) as under_way:
            try:
                request = next(under_way)
                while True:
                    request = under_way.send(await self._carry(request))
            except StopIteration as end:
                done: T = end.value
                return done

    async def _carry(self, request: Request) -> Reply | Lost:
        if request.after:
            await asyncio.sleep(request.after)
        return await self._transport.carry(request)


def _concurrent(
    planned: Callable[P, Plan[T]],
) -> Callable[Concatenate[Concurrent, P], Coroutine[Any, Any, T]]:
    """Make a plan a method to be awaited."""

    async def method(self: Concurrent, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(planned(*args, **kwargs))

    return shown_as(method, planned, planned.__name__)


def _queueing(
    made: Callable[P, Intent],
) -> Callable[Concatenate["AsyncTocsin", P], Coroutine[Any, Any, str]]:
    async def queue(self: "AsyncTocsin", /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Queue an intent to be sent soon, together with others, and give its idempotency key."""
        intent = made(*args, **kwargs)
        await self._queue.put(intent)
        return intent.key

    return shown_as(queue, made, "queue")


class AsyncPerson(Concurrent):
    """Tocsin as a person's own app meets it."""

    register_device = _concurrent(person_calls.register_device)
    unregister_device = _concurrent(person_calls.unregister_device)
    devices = _concurrent(person_calls.devices)
    change_device = _concurrent(person_calls.change_device)
    preferences = _concurrent(person_calls.preferences)
    change_preferences = _concurrent(person_calls.change_preferences)


class AsyncTocsin(Concurrent):
    """Tocsin as a producer meets it. Use it as an async context manager or close it.

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
        transport: AsyncTransport | None = None,
    ) -> None:
        place = Place(checked_base_url(base_url), ca_file)
        patience = Patience(timeout=timeout, deadline=deadline, retries=retries)
        super().__init__(
            transport or AsyncHttpTransport(place), Link(checked_secret("api_key", api_key), patience)
        )
        self._place = place
        self._queue = ConcurrentQueue(lambda buffer: self._run(buffer.drain()), queue_limits or QueueLimits())

    send = _concurrent(in_words(calls.send, Intent))
    send_many = _concurrent(calls.send_many)
    queue = _queueing(Intent)
    explain = _concurrent(in_words(calls.explain, Question))
    show = _concurrent(calls.show)
    cancel = _concurrent(calls.cancel)
    cancel_by_key = _concurrent(calls.cancel_by_key)
    reschedule = _concurrent(calls.reschedule)
    put_user = _concurrent(calls.put_user)
    get_user = _concurrent(calls.get_user)

    def for_user(self, token: str) -> AsyncPerson:
        """Speak for a person with the token of their app; connections are shared."""
        secret = checked_secret("the token", token)
        return AsyncPerson(self._transport, Link(secret, self._link.patience))

    async def flush(self) -> None:
        """Send what is queued now; raise if it cannot be sent or anything was refused since the last time."""
        await self._queue.flush()

    async def close(self) -> None:
        """Send what is queued and let go of every connection; raise with what could not be sent."""
        try:
            await self._queue.close()
        finally:
            await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        """Name the address and leave the key out."""
        return f"{type(self).__name__}({self._place.base_url!r})"
