"""Stand-in for Expo's push service: many messages per request, a ticket for each, receipts later."""

from collections.abc import Sequence
from typing import Any

from tocsin.sandbox.expo.errors import MESSAGE_ERRORS, REQUEST_ERRORS, message_error, request_error
from tocsin.sandbox.expo.message import ExpoMessage, is_push_token, parse_receipt_ids, parse_send
from tocsin.sandbox.expo.tickets import IssuedTicket, Tickets
from tocsin.sandbox.faults.rules import Cut, Fault, Hang, Refuse
from tocsin.sandbox.phones import Push
from tocsin.sandbox.responses import RefusedRequestError, Response, json_response
from tocsin.sandbox.stand_in import HttpStandIn, ReceivedRequest, SandboxContext, delivery_id_in

SEND_PATH = "/--/api/v2/push/send"
RECEIPTS_PATH = "/--/api/v2/push/getReceipts"
DEFAULT_PROJECT = "@sandbox/app"


def receipt_of(token: str) -> str:
    """Return the target under which faults of a token's receipts are scripted."""
    return f"receipt:{token}"


class Expo(HttpStandIn):
    """Both endpoints, for every project.

    Faults are scripted for single messages, by their token, and for receipts, by `receipt_of` it. A fault
    that only a whole request can meet (a refusal of the request, a hang, a cut) applies to all its messages.
    """

    name = "expo"
    codes = frozenset(MESSAGE_ERRORS) | frozenset(REQUEST_ERRORS)
    outage_code = "SERVICE_UNAVAILABLE"

    def __init__(self, context: SandboxContext) -> None:
        super().__init__(context)
        self.tickets = Tickets(receipts_after_seconds=context.settings.receipts_after_seconds)
        self.access_token: str | None = None
        self.projects: dict[str, str] = {}
        """The project of each token that does not belong to the default one."""

    def reset(self) -> None:
        """Forget faults, counts, tickets, projects and the required access token."""
        super().reset()
        self.tickets.clear()
        self.access_token = None
        self.projects.clear()

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request sends messages or asks for receipts."""
        return method == "POST" and path in {SEND_PATH, RECEIPTS_PATH}

    def _error(self, code: str, request: ReceivedRequest) -> Response:  # noqa: ARG002 - the same for every request
        return REQUEST_ERRORS[code]

    def _handle(self, request: ReceivedRequest) -> Response | Hang | Cut:
        if self.access_token and request.header("authorization") != f"Bearer {self.access_token}":
            self._refuse("UNAUTHORIZED", request)
        return self._receipts(request) if request.path == RECEIPTS_PATH else self._send(request)

    def _send(self, request: ReceivedRequest) -> Response | Hang | Cut:
        parsed = parse_send(request)
        self.counters.count_messages(len(parsed.messages))
        self._check_projects(parsed.messages)
        for message in parsed.messages:
            wait = self.faults.take_project_quota(self._project(message))
            if wait is not None:
                self._refuse("TOO_MANY_REQUESTS", request, wait)
        faults = [self.faults.next_fault(message.token) for message in parsed.messages]
        if broken := _broken_by(faults):
            if broken.delivered:
                for message in parsed.messages:
                    self._accept(message)
            return broken
        tickets = [
            message_error(fault.code, message.token) if isinstance(fault, Refuse) else self._accept(message)
            for message, fault in zip(parsed.messages, faults, strict=True)
        ]
        return json_response({"data": tickets[0] if parsed.single else tickets}, code="OK")

    def _check_projects(self, messages: Sequence[ExpoMessage]) -> None:
        tokens: dict[str, list[str]] = {}
        for message in messages:
            tokens.setdefault(self._project(message), []).append(message.token)
        if len(tokens) > 1:
            raise RefusedRequestError(request_error("PUSH_TOO_MANY_EXPERIENCE_IDS", details=tokens))

    def _project(self, message: ExpoMessage) -> str:
        return self.projects.get(message.token, DEFAULT_PROJECT)

    def _accept(self, message: ExpoMessage) -> dict[str, Any]:
        token = message.token
        if not is_push_token(token) or not self._phones.is_registered(token):
            return message_error("DeviceNotRegistered", token)
        if self.faults.take_device_quota(token) is not None:
            return message_error("MessageRateExceeded", token)
        # Only Apple and Google measure a message, so that it was too big is known from its receipt alone.
        too_big = message.is_too_big
        ticket_id = self.tickets.issue(token, too_big=too_big)
        if not too_big:
            content = message.content
            delivery_id = delivery_id_in(content.get("data"))
            self._receive(Push(target=token, message_id=ticket_id, delivery_id=delivery_id, message=content))
        return {"status": "ok", "id": ticket_id}

    def _receipts(self, request: ReceivedRequest) -> Response | Hang | Cut:
        receipts = {}
        for ticket_id in parse_receipt_ids(request):
            if ticket := self.tickets.ready(ticket_id):
                receipt = self._receipt(ticket)
                if isinstance(receipt, Hang | Cut):
                    return receipt
                receipts[ticket_id] = receipt
        return json_response({"data": receipts}, code="RECEIPTS")

    def _receipt(self, ticket: IssuedTicket) -> dict[str, Any] | Hang | Cut:
        if ticket.receipt is None:
            fault = self.faults.next_fault(receipt_of(ticket.token))
            if broken := _broken_by([fault]):
                return broken
            too_big = "MessageTooBig" if ticket.too_big else None
            code = fault.code if isinstance(fault, Refuse) else too_big
            ticket.receipt = message_error(code, ticket.token) if code else {"status": "ok"}
        return ticket.receipt


def _broken_by(faults: Sequence[Fault]) -> Hang | Cut | None:
    """Return the first fault that breaks a whole request; raise an error for one that refuses it."""
    for fault in faults:
        if isinstance(fault, Hang | Cut):
            return fault
        if isinstance(fault, Refuse) and fault.code in REQUEST_ERRORS:
            raise RefusedRequestError(REQUEST_ERRORS[fault.code].with_retry_after(fault.retry_after))
    return None
