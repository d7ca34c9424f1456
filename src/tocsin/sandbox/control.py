"""The control API: shows phones and counters, sets and removes faults."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec

from tocsin.sandbox.cross_origin import is_cross_origin_write, is_dns_rebinding
from tocsin.sandbox.expo.service import Expo
from tocsin.sandbox.faults.injector import FaultInjector, UnknownFaultCodeError
from tocsin.sandbox.faults.rules import Chance, Latency, Outage, Quota, Script, Seconds
from tocsin.sandbox.fcm.service import Fcm
from tocsin.sandbox.page import page_file
from tocsin.sandbox.page.feed import PageFeed
from tocsin.sandbox.phones import Phones, VirtualPhone
from tocsin.sandbox.responses import Response, json_response, problem
from tocsin.sandbox.stand_in import ReceivedRequest, StandIn
from tocsin.sandbox.webpush.browsers import Subscription

PREFIX = "/_sandbox/"
_LARGEST_PAGE = 1_000
_DONE = Response("ok", 204, b"", ())
_CROSS_ORIGIN = problem(
    403, "foreign_origin", "A browser may change the sandbox only from the sandbox's own page."
)
_FOREIGN_HOST = problem(
    421,
    "foreign_host",
    "The sandbox listens on a loopback address and is called by another name. Use localhost or the address.",
)
_UNKNOWN_PHONE = problem(404, "unknown_phone", "No message has reached this token and it was not registered.")
_FAULTS: Mapping[str, tuple[type, Callable[[FaultInjector, Any], None]]] = {
    "latency": (Latency, FaultInjector.latency),
    "project_quota": (Quota, FaultInjector.project_quota),
    "device_quota": (Quota, FaultInjector.device_quota),
    "outage": (Outage, FaultInjector.outage),
}


class ReceiptsDelay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long after a message its receipt is available."""

    after_seconds: Seconds


class Control(msgspec.Struct, kw_only=True):
    """Handles every path under `/_sandbox/`."""

    phones: Phones
    stand_ins: Mapping[str, StandIn]
    fcm: Fcm
    expo: Expo
    ca_pem: bytes
    subscribe: Callable[[str], Subscription]
    reset: Callable[[], None]

    def handle(self, request: ReceivedRequest) -> Response:
        """Handle a control request; a wrong one is answered with a problem."""
        try:
            if is_dns_rebinding(request):
                return _FOREIGN_HOST
            if is_cross_origin_write(request):
                return _CROSS_ORIGIN
            found = self._route(request)
        except (msgspec.DecodeError, UnknownFaultCodeError) as error:
            return problem(422, "invalid_body", f"The request body is not valid: {error}")
        except ValueError as error:
            return problem(400, "invalid_request", str(error))
        return found or problem(
            404, "not_found", f"There is no {request.method} {request.path} in the sandbox's control API."
        )

    def _route(self, request: ReceivedRequest) -> Response | None:
        section, _, rest = request.path.removeprefix(PREFIX).partition("/")
        query = {name: values[0] for name, values in parse_qs(request.query).items()}
        if section == "faults":
            return _fault(self._stand_in(query).faults, request.method, rest, request.body)
        if request.method == "GET":
            return self._show(section, rest, query, request.origin)
        return self._change(request.method, section, rest, request.body)

    def _show(self, section: str, rest: str, query: Mapping[str, str], origin: str) -> Response | None:
        match section, rest:
            case "page", name:
                return page_file(name)
            case "live", "":
                return json_response(PageFeed(self.phones, self.stand_ins).after(query.get("cursor", "")))
            case "messages", "":
                return self._list_messages(query)
            case "messages", path:
                return PageFeed(self.phones, self.stand_ins).message(path)
            case "phones", "":
                return self._list_phones(query)
            case "phones", token:
                return self._phone(token)
            case "stats", "":
                return json_response(self._stand_in(query).counters.stats())
            case "ca.pem", "":
                return Response("ok", 200, self.ca_pem, (("content-type", "application/x-pem-file"),))
            case "service_accounts", project_id:
                return json_response(self.fcm.accounts.account(project_id, f"{origin}/token"))
        return None

    def _change(self, method: str, section: str, rest: str, body: bytes) -> Response | None:
        match method, section, rest:
            case "POST", "browsers", name if name:
                return json_response(self.subscribe(name))
            case "PUT", "phones", token if token:
                return json_response(self._summary(self.phones.register(token)))
            case "DELETE", "phones", token if token:
                self.phones.unregister(token)
            case "DELETE", "access_tokens", "":
                self.fcm.tokens.revoke_all()
            case "PUT", "receipts", "":
                delay = msgspec.json.decode(body, type=ReceiptsDelay)
                self.expo.tickets.receipts_after_seconds = delay.after_seconds
            case "POST", "reset", "":
                self.reset()
            case _:
                return None
        return _DONE

    def _list_phones(self, query: Mapping[str, str]) -> Response:
        offset, limit = _number(query, "offset", 0), _number(query, "limit", 100, _LARGEST_PAGE)
        page = [self._summary(phone) for phone in self.phones.page(offset=offset, limit=limit)]
        return json_response({"phones": page, "total": len(self.phones), "offset": offset})

    def _phone(self, token: str) -> Response:
        phone = self.phones.find(token)
        if phone is None:
            return _UNKNOWN_PHONE
        return json_response(self._summary(phone) | {"messages": list(phone.messages)})

    def _list_messages(self, query: Mapping[str, str]) -> Response:
        after, limit = _number(query, "after", 0), _number(query, "limit", 100, _LARGEST_PAGE)
        page = list(self.phones.messages(after=after, limit=limit))
        following = page[-1].number if page else after
        return json_response({"messages": page, "total": self.phones.count, "next_after": following})

    def _summary(self, phone: VirtualPhone) -> dict[str, Any]:
        registered = self.phones.is_registered(phone.token)
        return {"token": phone.token, "live": registered, "received": phone.received}

    def _stand_in(self, query: Mapping[str, str]) -> StandIn:
        """Return the stand-in that the query names, FCM's by default."""
        name = query.get("provider", "fcm")
        if name not in self.stand_ins:
            known = ", ".join(sorted(self.stand_ins))
            raise ValueError(f"provider={name!r} is not known; use one of {known}.")
        return self.stand_ins[name]


def _fault(faults: FaultInjector, method: str, path: str, body: bytes) -> Response | None:
    name, _, target = path.partition("/")
    match method, name, target:
        case "GET", "", "":
            pass
        case "DELETE", "", "":
            faults.clear()
        case "PUT", "targets", target if target:
            script = msgspec.json.decode(body, type=Script)
            faults.script(target, *script.steps, repeat=script.repeat)
        case "DELETE", "targets", target if target:
            faults.unscript(target)
        case "PUT", "chances", "":
            faults.chances(*msgspec.json.decode(body, type=list[Chance]))
        case "DELETE", "chances", "":
            faults.chances()
        case "PUT" | "DELETE", _, "" if name in _FAULTS:
            type_, set_fault = _FAULTS[name]
            set_fault(faults, msgspec.json.decode(body, type=type_) if method == "PUT" else None)
        case _:
            return None
    return json_response(faults.active())


def _number(query: Mapping[str, str], name: str, default: int, most: int | None = None) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not text.isdecimal() or (most is not None and not 1 <= int(text) <= most):
        allowed = f"a number from 1 to {most}" if most else "a number from 0"
        raise ValueError(f"{name}={text!r} is not valid; use {allowed}.")
    return int(text)
