"""The client for threads: Celery tasks, Flask and Django views, scripts."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from tocsin.client import calls, person_calls
from tocsin.client.address import checked_base_url, checked_secret
from tocsin.client.exchange import ApiReply, CallOptions, ClientRequest, Flow, NoReply, RetryPolicy, attempts
from tocsin.client.intents import Intent, Question
from tocsin.client.queue.blocking import BlockingQueue
from tocsin.client.queue.buffer import QueueLimits
from tocsin.client.signatures import taking_fields, with_signature
from tocsin.client.transport import HttpTransport, ServerAddress, Transport

P = ParamSpec("P")
T = TypeVar("T")


class Blocking:
    """Runs calls in the caller's own thread."""

    def __init__(self, transport: Transport, options: CallOptions) -> None:
        self._transport = transport
        self._link = options

    def _run(self, flow: Flow[T]) -> T:
        # Closed however it ends, so that an interrupted flow puts back the intents it holds.
        with contextlib.closing(attempts(flow, self._link)) as running:
            try:
                request = next(running)
                while True:
                    request = running.send(self._send(request))
            except StopIteration as end:
                done: T = end.value
                return done

    def _send(self, request: ClientRequest) -> ApiReply | NoReply:
        if request.after:
            time.sleep(request.after)
        return self._transport.send(request)


def _blocking(flow: Callable[P, Flow[T]]) -> Callable[Concatenate[Blocking, P], T]:
    """Convert a call into a blocking method."""

    def method(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(flow(*args, **kwargs))

    return with_signature(method, flow, flow.__name__)


def _queueing(intent_type: Callable[P, Intent]) -> Callable[Concatenate["Tocsin", P], str]:
    def queue(self: "Tocsin", /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Queue an intent to be sent soon, together with others, and return its idempotency key."""
        intent = intent_type(*args, **kwargs)
        self._queue.put(intent)
        return intent.key

    return with_signature(queue, intent_type, "queue")


class Person(Blocking):
    """The calls of a person's app."""

    register_device = _blocking(person_calls.register_device)
    unregister_device = _blocking(person_calls.unregister_device)
    devices = _blocking(person_calls.devices)
    change_device = _blocking(person_calls.change_device)
    preferences = _blocking(person_calls.preferences)
    change_preferences = _blocking(person_calls.change_preferences)


class Tocsin(Blocking):
    """The client of a producer. Safe to share between threads; use it as a context manager or close it.

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
        address = ServerAddress(checked_base_url(base_url), ca_file)
        policy = RetryPolicy(timeout=timeout, deadline=deadline, retries=retries)
        super().__init__(
            transport or HttpTransport(address), CallOptions(checked_secret("api_key", api_key), policy)
        )
        self._address = address
        self._queue = BlockingQueue(self._run, queue_limits or QueueLimits())

    send = _blocking(taking_fields(calls.send, Intent))
    send_many = _blocking(calls.send_many)
    queue = _queueing(Intent)
    explain = _blocking(taking_fields(calls.explain, Question))
    show = _blocking(calls.show)
    cancel = _blocking(calls.cancel)
    cancel_by_key = _blocking(calls.cancel_by_key)
    reschedule = _blocking(calls.reschedule)
    put_user = _blocking(calls.put_user)
    get_user = _blocking(calls.get_user)

    def for_user(self, token: str) -> Person:
        """Return a client that calls as a person, with the token of their app; connections are shared."""
        secret = checked_secret("the token", token)
        return Person(self._transport, CallOptions(secret, self._link.policy))

    def flush(self) -> None:
        """Send what is queued now; raise if it cannot be sent or anything was refused since the last time."""
        self._queue.flush()

    def close(self) -> None:
        """Send what is queued and close every connection; raise with what could not be sent."""
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
        """Show the address without the key."""
        return f"{type(self).__name__}({self._address.base_url!r})"
