"""A receiver of webhooks, with an endpoint of any name at /webhook/{name}."""

from typing import Any, ClassVar, assert_never

import msgspec

from tocsin.sandbox.answers import Answer
from tocsin.sandbox.faults.rules import Cut, Hang, Pass, Refuse
from tocsin.sandbox.phones import Phones
from tocsin.sandbox.service import Broken, Request, Surroundings, Verdict
from tocsin.sandbox.tally import Tally
from tocsin.sandbox.webhook.answers import CODES, not_a_webhook, refusal, taken

PREFIX = "/webhook/"
REQUIRED = ("webhook-id", "webhook-timestamp", "webhook-signature")
KEPT = (*REQUIRED, "content-type", "user-agent")


class Webhook:
    """Takes what is in the form of Standard Webhooks, and keeps it as it came.

    It holds no secret, so the signature is kept for whoever does. An endpoint marked as unregistered
    answers 410, as one does whose owner wants nothing more.
    """

    name: ClassVar[str] = "webhook"

    def __init__(self, surroundings: Surroundings) -> None:
        self.faults = surroundings.board(CODES)
        self.tally = Tally()
        self._phones: Phones = surroundings.phones

    def takes(self, method: str, path: str) -> bool:
        """Tell whether a request is for an endpoint."""
        return method == "POST" and path.startswith(PREFIX)

    def serve(self, request: Request) -> Verdict:
        """Judge a request and let its message arrive, or not."""
        endpoint, url = request.path.removeprefix(PREFIX), request.origin + request.path
        if outage := self.faults.messages_outage():
            return refusal("HTTP_503", url).with_retry_after(outage.retry_after)
        given = {name: request.header(name) for name in KEPT}
        if missing := next((name for name in REQUIRED if not given[name]), None):
            return not_a_webhook(missing)
        try:
            event = msgspec.json.decode(request.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return not_a_webhook("a JSON object")
        message = {"headers": given, "body": request.body.decode(), "event": event}
        fault = self.faults.befalls(endpoint)
        match fault:
            case Refuse():
                return refusal(fault.code, url).with_retry_after(fault.retry_after)
            case Hang() | Cut():
                if fault.delivered:
                    self._take(endpoint, url, message)
                return Broken(fault)
            case Pass():
                return self._take(endpoint, url, message)
            case _:
                assert_never(fault)

    def _take(self, endpoint: str, url: str, message: dict[str, Any]) -> Answer:
        if not self._phones.is_live(endpoint):
            return refusal("HTTP_410", url)
        wait = self.faults.take_device_quota(endpoint)
        if wait is not None:
            return refusal("HTTP_429", url).with_retry_after(wait)
        delivery_id = message["headers"]["webhook-id"]
        self.tally.deliver(delivery_id)
        self._phones.receive(
            provider=self.name,
            target_kind="token",
            target=endpoint,
            message_id=delivery_id,
            delivery_id=delivery_id,
            message=message,
        )
        return taken()
