"""FCM HTTP v1: one request in, one verdict out."""

import itertools
import time
from typing import Any, ClassVar, assert_never

import msgspec

from tocsin.sandbox.answers import Answer
from tocsin.sandbox.faults.rules import Cut, Hang, Pass, Refuse
from tocsin.sandbox.fcm import errors as fcm_errors
from tocsin.sandbox.fcm.message import Target, refusal, target_of
from tocsin.sandbox.fcm.schema import request_violations
from tocsin.sandbox.service import Broken, Request, Surroundings, Verdict
from tocsin.sandbox.tally import Tally

_PREFIX = "/v1/projects/"
_SUFFIX = "/messages:send"
_BEARER = "Bearer "
_decode = msgspec.json.Decoder().decode


class Order(msgspec.Struct, frozen=True):
    """A request that FCM has read and found in order."""

    target: Target
    message: dict[str, Any]
    validate_only: bool


class Fcm:
    """The send endpoint of every project."""

    name: ClassVar[str] = "fcm"

    def __init__(self, surroundings: Surroundings) -> None:
        self.faults = surroundings.board(frozenset(fcm_errors.REFUSALS))
        self.tally = Tally()
        self._phones = surroundings.phones
        self._tokens = surroundings.tokens
        self._numbers = itertools.count(1)

    def takes(self, method: str, path: str) -> bool:
        """Tell whether a request is one to send."""
        return method == "POST" and path.startswith(_PREFIX) and path.endswith(_SUFFIX)

    def serve(self, request: Request) -> Verdict:
        """Judge a request and let its message arrive, or not."""
        project = request.path[len(_PREFIX) : -len(_SUFFIX)]
        refused = self._barred(project, request.header("authorization")) or self._over_quota(project)
        if refused:
            return refused
        order = _read(request.body)
        if isinstance(order, Answer):
            return order
        return self._meet_faults(project, order)

    def _barred(self, project: str, authorization: str | None) -> Answer | None:
        outage = self.faults.messages_outage()
        if outage:
            return fcm_errors.UNAVAILABLE.with_retry_after(outage.retry_after)
        if not authorization or not authorization.startswith(_BEARER):
            return fcm_errors.CREDENTIALS_MISSING
        access = self._tokens.access(authorization[len(_BEARER) :])
        if access is None:
            return fcm_errors.UNAUTHENTICATED
        if not access.may_send:
            return fcm_errors.SCOPE_INSUFFICIENT
        if access.project != project:
            return fcm_errors.permission_denied(project)
        return None

    def _over_quota(self, project: str) -> Answer | None:
        wait = self.faults.take_project_quota(project)
        return None if wait is None else fcm_errors.QUOTA_EXCEEDED.with_retry_after(wait)

    def _meet_faults(self, project: str, order: Order) -> Verdict:
        fault = self.faults.befalls(order.target.value)
        match fault:
            case Refuse():
                return fcm_errors.REFUSALS[fault.code].with_retry_after(fault.retry_after)
            case Hang() | Cut():
                if fault.delivered:
                    self._take(project, order)
                return Broken(fault)
            case Pass():
                return self._take(project, order)
            case _:
                assert_never(fault)

    def _take(self, project: str, order: Order) -> Answer:
        target = order.target
        if target.kind in {"token", "fid"}:
            if not self._phones.is_live(target.value):
                return fcm_errors.UNREGISTERED
            wait = self.faults.take_device_quota(target.value)
            if wait is not None:
                return fcm_errors.DEVICE_QUOTA_EXCEEDED.with_retry_after(wait)
        if order.validate_only:
            return _taken(project, "fake_message_id", "VALIDATED")
        message_id = f"0:{time.time_ns() // 1000}%{next(self._numbers):016x}"
        delivery_id = (order.message.get("data") or {}).get("delivery_id")
        self.tally.deliver(delivery_id)
        self._phones.receive(
            provider="fcm",
            target_kind=target.kind,
            target=target.value,
            message_id=message_id,
            delivery_id=delivery_id,
            message=order.message,
        )
        return _taken(project, message_id, "OK")


def _read(body: bytes) -> Order | Answer:
    try:
        request = _decode(body)
    except msgspec.DecodeError:
        return fcm_errors.unparsable(body)
    if not isinstance(request, dict):
        return fcm_errors.unparsable(body)
    violations = request_violations(request)
    if violations:
        return fcm_errors.malformed(violations)
    message = request.get("message")
    if message is None:
        return fcm_errors.invalid_argument("The message is not set.", "message")
    target = target_of(message)
    if target is None:
        return fcm_errors.invalid_argument("Recipient of the message is not set.", "message")
    validate_only = bool(request.get("validate_only") or request.get("validateOnly"))
    return refusal(message, target, len(body)) or Order(target, message, validate_only)


def _taken(project: str, message_id: str, code: str) -> Answer:
    return Answer(
        code, 200, b'{\n  "name": "projects/%b/messages/%b"\n}\n' % (project.encode(), message_id.encode())
    )
