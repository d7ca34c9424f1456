"""Stand-in for FCM HTTP v1."""

import itertools
import time

import msgspec

from tocsin.sandbox.fcm import errors
from tocsin.sandbox.fcm.accounts import Accounts
from tocsin.sandbox.fcm.message import check_message
from tocsin.sandbox.fcm.oauth import BEARER, TokenEndpoint
from tocsin.sandbox.fcm.schema import read_request
from tocsin.sandbox.phones import Push
from tocsin.sandbox.responses import RefusedRequestError, Response, json_response
from tocsin.sandbox.stand_in import ReceivedRequest, SandboxContext, SinglePushStandIn, delivery_id_in

_PREFIX = "/v1/projects/"
_SUFFIX = "/messages:send"
# What of a path names the project, and what the names of its messages begin with.
_PROJECT = slice(len(_PREFIX), -len(_SUFFIX))
_MESSAGES = slice(len("/v1/"), -len(":send"))
_VALIDATED_ID = "fake_message_id"
_decode = msgspec.json.Decoder().decode


class Fcm(SinglePushStandIn):
    """The send endpoint of every project, and Google's token endpoint."""

    name = "fcm"
    codes = frozenset(errors.REFUSALS)
    outage_code = "UNAVAILABLE"
    unregistered_code = "UNREGISTERED"
    device_quota_code = "DEVICE_QUOTA_EXCEEDED"

    def __init__(self, context: SandboxContext) -> None:
        super().__init__(context)
        self.accounts = Accounts(context.folder)
        self.tokens = TokenEndpoint(self.accounts, lifetime_seconds=context.settings.access_token_seconds)
        self._numbers = itertools.count(1)

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request sends a message."""
        return method == "POST" and path.startswith(_PREFIX) and path.endswith(_SUFFIX)

    def grant_token(self, request: ReceivedRequest) -> Response:
        """Answer a token request, unless an outage covers access tokens."""
        if outage := self.faults.outage_of("tokens"):
            refused = json_response({"error": "temporarily_unavailable"}, status=503, code="unavailable")
            return refused.with_retry_after(outage.retry_after)
        address = request.origin.partition("://")[2] + request.path
        response = self.tokens.grant(request.body, (f"https://{address}", f"http://{address}"))
        if response.code == "token":
            self.counters.count_access_token()
        return response

    def _error(self, code: str, request: ReceivedRequest) -> Response:  # noqa: ARG002 - the same for every request
        return errors.REFUSALS[code]

    def _parse(self, request: ReceivedRequest) -> Push:
        project = request.path[_PROJECT]
        self._check_access(project, request.header("authorization") or "")
        wait = self.faults.take_project_quota(project)
        if wait is not None:
            self._refuse("QUOTA_EXCEEDED", request, wait)
        content = read_request(request.body)
        message = content.message
        if message is None:
            raise RefusedRequestError(errors.invalid_argument("The message is not set.", "message"))
        target = check_message(message, len(request.body))
        new_id = f"0:{time.time_ns() // 1000}%{next(self._numbers):016x}"
        return Push(
            target=target.value,
            target_kind=target.kind,
            message_id=_VALIDATED_ID if content.validate_only else new_id,
            delivery_id=delivery_id_in(message.data),
            message=_decode(request.body)["message"] if self._phones.keeps_messages else {},
        )

    def _check_access(self, project: str, authorization: str) -> None:
        access = self.tokens.access(authorization)
        if access is None:
            if not authorization.startswith(BEARER):
                raise RefusedRequestError(errors.CREDENTIALS_MISSING)
            raise RefusedRequestError(errors.REFUSALS["UNAUTHENTICATED"])
        if not access.may_send:
            raise RefusedRequestError(errors.SCOPE_INSUFFICIENT)
        if access.project != project:
            raise RefusedRequestError(errors.permission_denied(project))

    def _arrive(self, push: Push) -> None:
        """Store a message, unless it was to be validated only."""
        if push.message_id != _VALIDATED_ID:
            self._receive(push)

    def _success(self, push: Push, request: ReceivedRequest) -> Response:
        code = "VALIDATED" if push.message_id == _VALIDATED_ID else "OK"
        name = f"{request.path[_MESSAGES]}/{push.message_id}"
        return Response(code, 200, f'{{\n  "name": "{name}"\n}}\n'.encode())
