"""The client for event loops."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from tocsin.client import calls, person_calls
from tocsin.client.address import checked_base_url, checked_secret
from tocsin.client.exchange import ApiReply, CallOptions, ClientRequest, Flow, NoReply, RetryPolicy, attempts
from tocsin.client.intents import Intent, Question
from tocsin.client.queue.buffer import QueueLimits
from tocsin.client.queue.concurrent import ConcurrentQueue
from tocsin.client.signatures import taking_fields, with_signature
from tocsin.client.transport import AsyncHttpTransport, AsyncTransport, ServerAddress

P = ParamSpec("P")
T = TypeVar("T")


class Concurrent:
    """Runs calls in an event loop."""

    def __init__(self, transport: AsyncTransport, options: CallOptions) -> None:
        self._transport = transport
        self._link = options

    async def _run(self, flow: Flow[T]) -> T:
        # Closed however it ends, so that an interrupted flow puts back the intents it holds.
        with contextlib.closing(attempts(flow, self._link)) as running:
            try:
                request = next(running)
                while True:
                    request = running.send(await self._send(request))
            except StopIteration as end:
                done: T = end.value
                return done

    async def _send(self, request: ClientRequest) -> ApiReply | NoReply:
        if request.after:
            await asyncio.sleep(request.after)
        return await self._transport.send(request)


def _concurrent(
    flow: Callable[P, Flow[T]],
) -> Callable[Concatenate[Concurrent, P], Coroutine[Any, Any, T]]:
    """Convert a call into an async method."""

    async def method(self: Concurrent, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(flow(*args, **kwargs))

    return with_signature(method, flow, flow.__name__)


def _queueing(
    intent_type: Callable[P, Intent],
) -> Callable[Concatenate["AsyncTocsin", P], Coroutine[Any, Any, str]]:
    async def queue(self: "AsyncTocsin", /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Queue an intent to be sent soon, together with others, and return its idempotency key."""
        intent = intent_type(*args, **kwargs)
        await self._queue.put(intent)
        return intent.key

    return with_signature(queue, intent_type, "queue")


class AsyncPerson(Concurrent):
    """The calls of a person's app."""

    register_device = _concurrent(person_calls.register_device)
    unregister_device = _concurrent(person_calls.unregister_device)
    devices = _concurrent(person_calls.devices)
    change_device = _concurrent(person_calls.change_device)
    preferences = _concurrent(person_calls.preferences)
    change_preferences = _concurrent(person_calls.change_preferences)


class AsyncTocsin(Concurrent):
    """The client of a producer. Use it as an async context manager or close it.

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
        address = ServerAddress(checked_base_url(base_url), ca_file)
        policy = RetryPolicy(timeout=timeout, deadline=deadline, retries=retries)
        super().__init__(
            transport or AsyncHttpTransport(address), CallOptions(checked_secret("api_key", api_key), policy)
        )
        self._address = address
        self._queue = ConcurrentQueue(self._run, queue_limits or QueueLimits())

    send = _concurrent(taking_fields(calls.send, Intent))
    send_many = _concurrent(calls.send_many)
    queue = _queueing(Intent)
    explain = _concurrent(taking_fields(calls.explain, Question))
    show = _concurrent(calls.show)
    cancel = _concurrent(calls.cancel)
    cancel_by_key = _concurrent(calls.cancel_by_key)
    reschedule = _concurrent(calls.reschedule)
    put_user = _concurrent(calls.put_user)
    get_user = _concurrent(calls.get_user)

    def for_user(self, token: str) -> AsyncPerson:
        """Return a client that calls as a person, with the token of their app; connections are shared."""
        secret = checked_secret("the token", token)
        return AsyncPerson(self._transport, CallOptions(secret, self._link.policy))

    async def flush(self) -> None:
        """Send what is queued now; raise if it cannot be sent or anything was refused since the last time."""
        await self._queue.flush()

    async def close(self) -> None:
        """Send what is queued and close every connection; raise with what could not be sent."""
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
        """Show the address without the key."""
        return f"{type(self).__name__}({self._address.base_url!r})"
