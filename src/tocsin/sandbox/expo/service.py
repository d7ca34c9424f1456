"""Expo's push service: many messages a request, a ticket each, receipts later."""

from collections.abc import Sequence
from typing import Any, ClassVar, assert_never

from tocsin.sandbox.answers import Answer, json_answer
from tocsin.sandbox.expo.errors import (
    MESSAGE_ERRORS,
    REQUEST_ERRORS,
    SERVICE_UNAVAILABLE,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    message_error,
    too_many_projects,
)
from tocsin.sandbox.expo.message import Push, is_push_token, read_order, read_question
from tocsin.sandbox.expo.tickets import Ticket, Tickets
from tocsin.sandbox.faults.rules import Cut, Fault, Hang, Pass, Refuse
from tocsin.sandbox.service import Broken, Request, Surroundings, Verdict
from tocsin.sandbox.tally import Tally

SEND_PATH = "/--/api/v2/push/send"
RECEIPTS_PATH = "/--/api/v2/push/getReceipts"
PROJECT = "@sandbox/app"
_PATHS = frozenset({SEND_PATH, RECEIPTS_PATH})


def receipt_of(token: str) -> str:
    """Name what befalls the receipts of a token, for the fault board."""
    return f"receipt:{token}"


class Expo:
    """Both endpoints, for every project.

    Faults befall single messages, by their token, and receipts, by `receipt_of` it. One that only a whole
    request can meet (a refusal of the request, a hang, a cut) befalls every message sent along with it.
    """

    name: ClassVar[str] = "expo"

    def __init__(self, surroundings: Surroundings) -> None:
        self.faults = surroundings.board(frozenset(MESSAGE_ERRORS) | frozenset(REQUEST_ERRORS))
        self.tally = Tally()
        self.tickets = Tickets()
        self.access_token: str | None = None
        self._phones = surroundings.phones
        self._projects: dict[str, str] = {}

    def assign(self, token: str, project: str) -> None:
        """Say which project a token is of; all others are of one project."""
        self._projects[token] = project

    def clear(self) -> None:
        """Forget tickets, projects and the access token asked for."""
        self.tickets.clear()
        self.access_token = None
        self._projects.clear()

    def takes(self, method: str, path: str) -> bool:
        """Tell whether a request is one to send or for receipts."""
        return path in _PATHS and method == "POST"

    def serve(self, request: Request) -> Verdict:
        """Judge a request and let its messages arrive, or not."""
        if outage := self.faults.messages_outage():
            return SERVICE_UNAVAILABLE.with_retry_after(outage.retry_after)
        if self.access_token and request.header("authorization") != f"Bearer {self.access_token}":
            return UNAUTHORIZED
        if request.path == RECEIPTS_PATH:
            return self._receipts(request)
        return self._send(request)

    def _send(self, request: Request) -> Verdict:
        order = read_order(request.body, request.header("content-encoding"))
        if isinstance(order, Answer):
            return order
        self.tally.messages(len(order.pushes))
        if refused := self._mixed(order.pushes) or self._over_quota(order.pushes):
            return refused
        befallen = [(push, self.faults.befalls(push.token)) for push in order.pushes]
        broken = _of_the_request([fault for _, fault in befallen])
        if isinstance(broken, Broken) and broken.fault.delivered:
            for push in order.pushes:
                self._take(push)
        if broken:
            return broken
        tickets = [self._ticket(push, fault) for push, fault in befallen]
        return json_answer({"data": tickets[0] if order.single else tickets}, code="OK")

    def _mixed(self, pushes: Sequence[Push]) -> Answer | None:
        if not self._projects:
            return None
        tokens: dict[str, list[str]] = {}
        for push in pushes:
            tokens.setdefault(self._project(push), []).append(push.token)
        return too_many_projects(tokens) if len(tokens) > 1 else None

    def _over_quota(self, pushes: Sequence[Push]) -> Answer | None:
        for push in pushes:
            wait = self.faults.take_project_quota(self._project(push))
            if wait is not None:
                return TOO_MANY_REQUESTS.with_retry_after(wait)
        return None

    def _project(self, push: Push) -> str:
        return self._projects.get(push.token, PROJECT)

    def _ticket(self, push: Push, fault: Fault) -> dict[str, Any]:
        if isinstance(fault, Refuse):
            return message_error(fault.code, push.token)
        return self._take(push)

    def _take(self, push: Push) -> dict[str, Any]:
        if not is_push_token(push.token) or not self._phones.is_live(push.token):
            return message_error("DeviceNotRegistered", push.token)
        if self.faults.take_device_quota(push.token) is not None:
            return message_error("MessageRateExceeded", push.token)
        # Only Apple and Google measure a message, so its receipt alone tells that it was too big.
        too_big = push.is_too_big
        ticket_id = self.tickets.give(push.token, too_big=too_big)
        if not too_big:
            self._arrive(push, ticket_id)
        return {"status": "ok", "id": ticket_id}

    def _arrive(self, push: Push, ticket_id: str) -> None:
        delivery_id = push.delivery_id
        self.tally.deliver(delivery_id)
        self._phones.receive(
            provider=self.name,
            target_kind="token",
            target=push.token,
            message_id=ticket_id,
            delivery_id=delivery_id,
            message=push.message,
        )

    def _receipts(self, request: Request) -> Verdict:
        ids = read_question(request.body, request.header("content-encoding"))
        if isinstance(ids, Answer):
            return ids
        receipts = {}
        for ticket_id in ids:
            if ticket := self.tickets.ready(ticket_id):
                receipt = self._receipt(ticket)
                if isinstance(receipt, Answer | Broken):
                    return receipt
                receipts[ticket_id] = receipt
        return json_answer({"data": receipts}, code="RECEIPTS")

    def _receipt(self, ticket: Ticket) -> dict[str, Any] | Verdict:
        if ticket.receipt is None:
            fault = self.faults.befalls(receipt_of(ticket.token))
            if broken := _of_the_request([fault]):
                return broken
            if isinstance(fault, Refuse):
                ticket.receipt = message_error(fault.code, ticket.token)
            elif ticket.too_big:
                ticket.receipt = message_error("MessageTooBig", ticket.token)
            else:
                ticket.receipt = {"status": "ok"}
        return ticket.receipt


def _of_the_request(faults: Sequence[Fault]) -> Verdict | None:
    """Find the first fault that befalls a request as a whole."""
    for fault in faults:
        match fault:
            case Refuse():
                if answer := REQUEST_ERRORS.get(fault.code):
                    return answer.with_retry_after(fault.retry_after)
            case Hang() | Cut():
                return Broken(fault)
            case Pass():
                pass
            case _:
                assert_never(fault)
    return None
