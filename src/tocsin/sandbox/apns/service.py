"""APNs: one request in, one verdict out."""

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, assert_never

from tocsin.sandbox.answers import Answer
from tocsin.sandbox.apns.errors import STATUSES, refused, taken
from tocsin.sandbox.apns.provider_token import KEY_ID, TEAM_ID, ProviderTokenCheck
from tocsin.sandbox.apns.request import HEADERS, header_refusal, is_id, read_payload
from tocsin.sandbox.faults.rules import Cut, Hang, Pass, Refuse
from tocsin.sandbox.service import Broken, Request, Surroundings, Verdict
from tocsin.sandbox.tally import Tally

_PREFIX = "/3/"
_DEVICE = "/3/device/"


class Apns:
    """The send endpoint of both environments, for every topic of the sandbox's team.

    A virtual phone may have any name; hexadecimal, as Apple's are, it need not be. `gone_since` is the
    moment, in seconds of Unix time, that answers about lost devices tell; unless set, the present one.
    """

    name: ClassVar[str] = "apns"
    key_id: ClassVar[str] = KEY_ID
    team_id: ClassVar[str] = TEAM_ID

    def __init__(self, surroundings: Surroundings) -> None:
        self.faults = surroundings.board(frozenset(STATUSES))
        self.tally = Tally()
        self.provider_tokens = ProviderTokenCheck.prepare(surroundings.folder)
        self.clock: Callable[[], float] = time.time
        self.gone_since: float | None = None
        self._phones = surroundings.phones

    def write_key(self, path: Path) -> Path:
        """Write the .p8 file whose tokens this stand-in takes."""
        return self.provider_tokens.write_key(path)

    def takes(self, method: str, path: str) -> bool:  # noqa: ARG002 - APNs answers wrong methods itself
        """Tell whether a request is for APNs."""
        return path.startswith(_PREFIX)

    def serve(self, request: Request) -> Verdict:
        """Judge a request and let its message arrive, or not."""
        given = request.header("apns-id")
        apns_id = given if given and is_id(given) else str(uuid.uuid4()).upper()
        outage = self.faults.messages_outage()
        if outage:
            return self._refuse("ServiceUnavailable", apns_id).with_retry_after(outage.retry_after)
        token = request.path.removeprefix(_DEVICE)
        reason = self._barred(request) or header_refusal(token, request)
        if reason:
            return self._refuse(reason, apns_id)
        payload = read_payload(request)
        if isinstance(payload, str):
            return self._refuse(payload, apns_id)
        message = {**payload, "headers": _headers(request)}
        return self._meet_faults(token, apns_id, message)

    def _barred(self, request: Request) -> str | None:
        if not request.path.startswith(_DEVICE):
            return "BadPath"
        if request.method != "POST":
            return "MethodNotAllowed"
        return self.provider_tokens.refusal(request.header("authorization"), self.clock())

    def _meet_faults(self, token: str, apns_id: str, message: dict[str, Any]) -> Verdict:
        fault = self.faults.befalls(token)
        match fault:
            case Refuse():
                return self._refuse(fault.code, apns_id).with_retry_after(fault.retry_after)
            case Hang() | Cut():
                if fault.delivered:
                    self._take(token, apns_id, message)
                return Broken(fault)
            case Pass():
                return self._take(token, apns_id, message)
            case _:
                assert_never(fault)

    def _take(self, token: str, apns_id: str, message: dict[str, Any]) -> Answer:
        if not self._phones.is_live(token):
            return self._refuse("Unregistered", apns_id)
        # Apple counts by device alone; a quota of the whole topic is told in the same words.
        wait = self.faults.take_project_quota(message["headers"]["apns-topic"])
        if wait is None:
            wait = self.faults.take_device_quota(token)
        if wait is not None:
            return self._refuse("TooManyRequests", apns_id).with_retry_after(wait)
        delivery_id = message.get("delivery_id")
        delivery_id = delivery_id if isinstance(delivery_id, str) else None
        self.tally.deliver(delivery_id)
        self._phones.receive(
            provider=self.name,
            target_kind="token",
            target=token,
            message_id=apns_id,
            delivery_id=delivery_id,
            message=message,
        )
        return taken(apns_id)

    def _refuse(self, reason: str, apns_id: str) -> Answer:
        since = self.clock() if self.gone_since is None else self.gone_since
        return refused(reason, apns_id, gone_since_ms=int(since * 1_000))


def _headers(request: Request) -> dict[str, str]:
    given = ((name, request.header(name)) for name in HEADERS)
    return {name: value for name, value in given if value is not None}
