"""Stand-in for a receiver of webhooks, with an endpoint of any name at /webhook/{name}."""

from http import HTTPStatus
from typing import Any

import msgspec

from tocsin.sandbox.phones import Push
from tocsin.sandbox.responses import TEXT, RefusedRequestError, Response
from tocsin.sandbox.stand_in import ReceivedRequest, SinglePushStandIn

PREFIX = "/webhook/"
REQUIRED = ("webhook-id", "webhook-timestamp", "webhook-signature")
KEPT = (*REQUIRED, "content-type", "user-agent", "traceparent")
_REDIRECTS = (301, 302, 303, 307, 308)
_REFUSALS = (400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 425, 429)
_FAILURES = (500, 501, 502, 503, 504)


class WebhookStandIn(SinglePushStandIn):
    """Accepts requests in the form of Standard Webhooks, and stores them unchanged.

    It has no secret, so it stores the signature without a check. An endpoint marked as unregistered
    answers 410, as one does whose owner wants nothing more.
    """

    name = "webhook"
    codes = frozenset(f"HTTP_{status}" for status in (*_REDIRECTS, *_REFUSALS, *_FAILURES))
    outage_code = "HTTP_503"
    unregistered_code = "HTTP_410"
    device_quota_code = "HTTP_429"

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request is for an endpoint."""
        return method == "POST" and path.startswith(PREFIX)

    def _error(self, code: str, request: ReceivedRequest) -> Response:
        """Build the response of a code; its text quotes the URL, as careless receivers do."""
        url = request.origin + request.path
        status = HTTPStatus(int(code.removeprefix("HTTP_")))
        headers = (TEXT, ("location", f"{url}/elsewhere")) if status in _REDIRECTS else (TEXT,)
        return Response(code, status, f"{status.phrase}: {url}".encode(), headers)

    def _parse(self, request: ReceivedRequest) -> Push:
        headers = {name: value for name in KEPT if (value := request.header(name)) is not None}
        missing = next((name for name in REQUIRED if not headers.get(name)), None)
        event: dict[str, Any] = {}
        try:
            event = msgspec.json.decode(request.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            missing = missing or "a JSON object"
        if missing:
            text = f"{missing} is missing".encode()
            raise RefusedRequestError(Response("HTTP_400", HTTPStatus.BAD_REQUEST, text, (TEXT,)))
        return Push(
            target=request.path.removeprefix(PREFIX),
            message_id=str(headers["webhook-id"]),
            delivery_id=headers["webhook-id"],
            message={"headers": headers, "body": request.body.decode(), "event": event},
        )

    def _success(self, push: Push, request: ReceivedRequest) -> Response:  # noqa: ARG002 - nothing more to say
        return Response("OK", HTTPStatus.NO_CONTENT, b"", ())
