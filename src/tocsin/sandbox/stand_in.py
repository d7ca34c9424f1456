"""The parts that all stand-ins for providers have in common."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import msgspec

from tocsin.sandbox.counters import Counters
from tocsin.sandbox.faults.injector import FaultInjector
from tocsin.sandbox.faults.rules import Cut, Hang, Pass, Refuse
from tocsin.sandbox.phones import DEVICE_TARGETS, Phones, Push
from tocsin.sandbox.responses import RefusedRequestError, Response
from tocsin.sandbox.settings import SandboxSettings


class ReceivedRequest(msgspec.Struct, frozen=True):
    """One HTTP request with its whole body.

    `header` looks a header up by its lower-case name. `origin` is the scheme and host that the client used,
    `server` the address that received the request.
    """

    method: str
    path: str
    query: str
    header: Callable[[str], str | None]
    body: bytes
    origin: str
    server: str


class SandboxContext(msgspec.Struct, frozen=True):
    """What the stand-ins of one sandbox share."""

    settings: SandboxSettings
    folder: Path
    phones: Phones


class StandIn(ABC):
    """Stands in for one provider, with faults and counters of its own."""

    name: ClassVar[str]
    codes: ClassVar[frozenset[str]]
    """Every error code that can be scripted."""

    def __init__(self, context: SandboxContext) -> None:
        settings = context.settings
        self.faults = FaultInjector(codes=self.codes, seed=settings.seed, latency=settings.latency)
        self.counters = Counters()
        self._phones = context.phones

    def reset(self) -> None:
        """Remove the faults and set the counters to zero."""
        self.faults.clear()
        self.counters.clear()

    def _receive(self, push: Push) -> None:
        self.counters.count_delivery(push.delivery_id)
        self._phones.receive(self.name, push)


def delivery_id_in(data: Any) -> str | None:
    """Return the delivery id in the data of a message, if it has one."""
    delivery_id = data.get("delivery_id") if isinstance(data, dict) else None
    return delivery_id if isinstance(delivery_id, str) else None


class HttpStandIn(StandIn):
    """Stands in for a provider that is called over HTTP."""

    @abstractmethod
    def matches(self, method: str, path: str) -> bool:
        """Return whether a request is for this stand-in."""

    def handle(self, request: ReceivedRequest) -> Response | Hang | Cut:
        """Check a request and deliver its messages; return the response, or the fault that breaks it."""
        try:
            if outage := self.faults.outage_of("messages"):
                return self._error(self.outage_code, request).with_retry_after(outage.retry_after)
            return self._handle(request)
        except RefusedRequestError as refused:
            return refused.response

    outage_code: ClassVar[str]

    @abstractmethod
    def _error(self, code: str, request: ReceivedRequest) -> Response:
        """Build the error response of a code."""

    @abstractmethod
    def _handle(self, request: ReceivedRequest) -> Response | Hang | Cut:
        """Handle a request outside an outage; raise RefusedRequestError to refuse it."""

    def _refuse(self, code: str, request: ReceivedRequest, retry_after: int | None = None) -> NoReturn:
        raise RefusedRequestError(self._error(code, request).with_retry_after(retry_after))


class SinglePushStandIn(HttpStandIn):
    """Stands in for a provider that takes one message per request."""

    unregistered_code: ClassVar[str]
    device_quota_code: ClassVar[str]

    def _handle(self, request: ReceivedRequest) -> Response | Hang | Cut:
        push = self._parse(request)
        fault = self.faults.next_fault(push.target)
        match fault:
            # Most messages meet no fault.
            case Pass():
                return self._deliver(push, request)
            case Refuse():
                return self._error(fault.code, request).with_retry_after(fault.retry_after)
            case Hang() | Cut():
                if fault.delivered:
                    with contextlib.suppress(RefusedRequestError):
                        self._deliver(push, request)
                return fault

    def _deliver(self, push: Push, request: ReceivedRequest) -> Response:
        if push.target_kind in DEVICE_TARGETS:
            if not self._phones.is_registered(push.target):
                self._refuse(self.unregistered_code, request)
            wait = self.faults.take_device_quota(push.target)
            if wait is not None:
                self._refuse(self.device_quota_code, request, wait)
        self._arrive(push)
        return self._success(push, request)

    def _arrive(self, push: Push) -> None:
        """Take a message at its target; raise RefusedRequestError if the target cannot read it."""
        self._receive(push)

    @abstractmethod
    def _parse(self, request: ReceivedRequest) -> Push:
        """Check a request as the provider does, and return its message."""

    @abstractmethod
    def _success(self, push: Push, request: ReceivedRequest) -> Response:
        """Build the response to a message that was delivered."""
