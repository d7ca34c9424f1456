"""The control API: look at phones and counts, put faults up and take them down."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec

from tocsin.sandbox.answers import Answer, json_answer, problem
from tocsin.sandbox.faults.board import FaultBoard, UnknownFaultCodeError
from tocsin.sandbox.faults.rules import Chance, Latency, Outage, Quota, Script
from tocsin.sandbox.fcm.accounts import ServiceAccount
from tocsin.sandbox.fcm.oauth import TokenEndpoint
from tocsin.sandbox.page import page_file
from tocsin.sandbox.page.live import Live
from tocsin.sandbox.phones import Phone, Phones
from tocsin.sandbox.service import StandIn
from tocsin.sandbox.webpush.browsers import Subscription

PREFIX = "/_sandbox/"
_LARGEST_PAGE = 1_000
_PEM = ("content-type", "application/x-pem-file")


class IssueAccount(Protocol):
    """Makes the key file of a project's service account."""

    def __call__(self, project_id: str, *, secure: bool) -> ServiceAccount:
        """Make it for the plain or the secure listener."""
        ...


class _BadQueryError(ValueError):
    """A query parameter is not a number in its range."""


class Control:
    """Answers every path under `/_sandbox/`."""

    def __init__(
        self,
        *,
        phones: Phones,
        services: Mapping[str, StandIn],
        tokens: TokenEndpoint,
        ca_pem: bytes,
        service_account: IssueAccount,
        subscription: Callable[[str], Subscription],
        reset: Callable[[], None],
    ) -> None:
        self._phones = phones
        self._services = services
        self._service_account = service_account
        self._subscription = subscription
        self._live = Live(phones, services)
        self._views: dict[tuple[str, str], Callable[[str], Answer]] = {
            ("GET", ""): lambda _: page_file(),
            ("GET", "live"): lambda query: json_answer(self._live.feed(_text(query, "cursor"))),
            ("GET", "phones"): self._list_phones,
            ("GET", "messages"): self._list_messages,
            ("GET", "stats"): lambda query: json_answer(self._service(query).tally.stats()),
            ("GET", "ca.pem"): lambda _: Answer("ok", 200, ca_pem, [_PEM]),
            ("DELETE", "access_tokens"): lambda _: _done(tokens.revoke_all),
            ("POST", "reset"): lambda _: _done(reset),
        }

    def answer(self, method: str, path: str, query: str, body: bytes, *, secure: bool) -> Answer:
        """Answer a control request that came over TLS or not."""
        section, _, rest = path.removeprefix(PREFIX).partition("/")
        try:
            if (method, section) == ("GET", "service_accounts"):
                return json_answer(self._service_account(rest, secure=secure))
            found = self._route(method, section, rest, query, body)
        except (msgspec.DecodeError, UnknownFaultCodeError) as error:
            return problem(422, "invalid_body", f"The request body is not valid: {error}")
        except (_BadQueryError, ValueError) as error:
            return problem(400, "invalid_request", str(error))
        return found or problem(
            404, "not_found", f"There is no {method} {path} in the sandbox's control API."
        )

    def _route(self, method: str, section: str, rest: str, query: str, body: bytes) -> Answer | None:
        if section == "faults":
            return _fault(self._service(query).faults, method, rest, body)
        if (method, section) == ("POST", "browsers") and rest:
            return json_answer(self._subscription(rest))
        if section == "phones" and rest:
            return self._phone(method, rest)
        if (method, section) == ("GET", "messages") and rest:
            return self._live.message(rest)
        if (method, section) == ("GET", "page"):
            return page_file(rest)
        view = self._views.get((method, f"{section}/{rest}" if rest else section))
        return view(query) if view else None

    def _list_phones(self, query: str) -> Answer:
        offset, limit = _number(query, "offset", 0), _number(query, "limit", 100, _LARGEST_PAGE)
        page = [self._summary(phone) for phone in self._phones.page(offset=offset, limit=limit)]
        return json_answer({"phones": page, "total": len(self._phones), "offset": offset})

    def _phone(self, method: str, token: str) -> Answer | None:
        match method:
            case "PUT":
                return json_answer(self._summary(self._phones.register(token)))
            case "DELETE":
                return _done(lambda: self._phones.unregister(token))
            case "GET":
                phone = self._phones.find(token)
                if phone is None:
                    return problem(
                        404, "unknown_phone", "No message has reached this token and it was not registered."
                    )
                return json_answer(self._summary(phone) | {"messages": list(phone.messages)})
            case _:
                return None

    def _list_messages(self, query: str) -> Answer:
        after, limit = _number(query, "after", 0), _number(query, "limit", 100, _LARGEST_PAGE)
        page = list(self._phones.messages(after=after, limit=limit))
        following = page[-1].number if page else after
        return json_answer({"messages": page, "total": self._phones.count, "next_after": following})

    def _summary(self, phone: Phone) -> dict[str, Any]:
        return {"token": phone.token, "live": self._phones.is_live(phone.token), "received": phone.received}

    def _service(self, query: str) -> StandIn:
        """Find the stand-in that a request is about: FCM's unless it names another."""
        name = _text(query, "provider", "fcm")
        if name not in self._services:
            known = ", ".join(sorted(self._services))
            raise _BadQueryError(f"provider={name!r} is not known; use one of {known}.")
        return self._services[name]


def _fault(faults: FaultBoard, method: str, name: str, body: bytes) -> Answer | None:
    kind, _, target = name.partition("/")
    match method, kind:
        case "GET", "":
            pass
        case "DELETE", "":
            faults.clear()
        case "PUT", _:
            if not _put_up(faults, kind, target, body):
                return None
        case "DELETE", _:
            if not _take_down(faults, kind, target):
                return None
        case _:
            return None
    return json_answer(faults.picture())


def _put_up(faults: FaultBoard, kind: str, target: str, body: bytes) -> bool:
    match kind, bool(target):
        case "targets", True:
            script = msgspec.json.decode(body, type=Script)
            faults.script(target, *script.steps, repeat=script.repeat)
        case "chances", False:
            faults.chances(*msgspec.json.decode(body, type=list[Chance]))
        case "latency", False:
            faults.latency(msgspec.json.decode(body, type=Latency))
        case "project_quota", False:
            faults.project_quota(msgspec.json.decode(body, type=Quota))
        case "device_quota", False:
            faults.device_quota(msgspec.json.decode(body, type=Quota))
        case "outage", False:
            faults.outage(msgspec.json.decode(body, type=Outage))
        case _:
            return False
    return True


def _take_down(faults: FaultBoard, kind: str, target: str) -> bool:
    match kind, bool(target):
        case "targets", True:
            faults.unscript(target)
        case "chances", False:
            faults.chances()
        case "latency", False:
            faults.latency(None)
        case "project_quota", False:
            faults.project_quota(None)
        case "device_quota", False:
            faults.device_quota(None)
        case "outage", False:
            faults.outage(None)
        case _:
            return False
    return True


def _done(*actions: Callable[[], None]) -> Answer:
    for action in actions:
        action()
    return Answer("ok", 204, b"", [])


def _text(query: str, name: str, default: str = "") -> str:
    return parse_qs(query).get(name, [default])[0]


def _number(query: str, name: str, default: int, most: int | None = None) -> int:
    values = parse_qs(query).get(name)
    if not values:
        return default
    text = values[0]
    if not text.isdecimal() or (most is not None and not 1 <= int(text) <= most):
        allowed = f"a number from 1 to {most}" if most else "a number from 0"
        raise _BadQueryError(f"{name}={text!r} is not valid; give {allowed}.")
    return int(text)
