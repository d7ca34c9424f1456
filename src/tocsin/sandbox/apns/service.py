"""Stand-in for APNs."""

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from tocsin.sandbox.apns.errors import STATUSES
from tocsin.sandbox.apns.provider_token import KEY_ID, TEAM_ID, ProviderTokenCheck
from tocsin.sandbox.apns.request import HEADERS, header_error, is_id, parse_payload
from tocsin.sandbox.phones import Push
from tocsin.sandbox.responses import JSON, Response
from tocsin.sandbox.stand_in import ReceivedRequest, SandboxContext, SinglePushStandIn, delivery_id_in

_PREFIX = "/3/"
_DEVICE = "/3/device/"
_GONE = 410


class Apns(SinglePushStandIn):
    """The send endpoint of both environments, for every topic of the sandbox's team.

    A token may be any name, not only a hexadecimal one as Apple's are. `gone_since` is the moment, in seconds
    of Unix time, that answers about unregistered devices carry; by default the current one.
    """

    name = "apns"
    codes = frozenset(STATUSES)
    outage_code = "ServiceUnavailable"
    unregistered_code = "Unregistered"
    device_quota_code = "TooManyRequests"
    key_id: ClassVar[str] = KEY_ID
    team_id: ClassVar[str] = TEAM_ID

    def __init__(self, context: SandboxContext) -> None:
        super().__init__(context)
        self.provider_tokens = ProviderTokenCheck(context.folder)
        self.clock: Callable[[], float] = time.time
        self.gone_since: float | None = None

    def write_key(self, path: Path) -> Path:
        """Write the .p8 file whose tokens this stand-in accepts."""
        return self.provider_tokens.write_key(path)

    def matches(self, method: str, path: str) -> bool:  # noqa: ARG002 - APNs answers wrong methods itself
        """Return whether a request is for APNs."""
        return path.startswith(_PREFIX)

    def _error(self, code: str, request: ReceivedRequest) -> Response:
        status = STATUSES[code]
        body: dict[str, Any] = {"reason": code}
        if status == _GONE:
            since = self.clock() if self.gone_since is None else self.gone_since
            body["timestamp"] = int(since * 1_000)
        return Response(code, status, msgspec.json.encode(body), (JSON, ("apns-id", _apns_id(request))))

    def _parse(self, request: ReceivedRequest) -> Push:
        if not request.path.startswith(_DEVICE):
            self._refuse("BadPath", request)
        if request.method != "POST":
            self._refuse("MethodNotAllowed", request)
        token = request.path.removeprefix(_DEVICE)
        authorization = request.header("authorization")
        reason = self.provider_tokens.error(authorization, self.clock()) or header_error(token, request)
        if reason:
            self._refuse(reason, request)
        payload = parse_payload(request)
        if isinstance(payload, str):
            self._refuse(payload, request)
        headers = {name: value for name in HEADERS if (value := request.header(name)) is not None}
        # Apple counts by device alone; a quota of the whole topic gets the same answer.
        wait = self.faults.take_project_quota(headers["apns-topic"])
        if wait is not None:
            self._refuse("TooManyRequests", request, wait)
        return Push(
            target=token,
            message_id=_apns_id(request),
            delivery_id=delivery_id_in(payload),
            message={**payload, "headers": headers},
        )

    def _success(self, push: Push, request: ReceivedRequest) -> Response:  # noqa: ARG002 - the id says it all
        return Response("OK", 200, b"", (("apns-id", push.message_id),))


def _apns_id(request: ReceivedRequest) -> str:
    given = request.header("apns-id")
    return given if given and is_id(given) else str(uuid.uuid4()).upper()
