"""What the page polls: new messages, counts and the active faults.

The page polls. A stream would hold a connection of the few that a browser has for one host, would have to be
ended before a listener can stop, and looks like a dead one; the next poll makes up for a missed one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tocsin.sandbox.appearance import appearance, device_kind
from tocsin.sandbox.faults.rules import ActiveFaults, Refuse
from tocsin.sandbox.phones import Phones, Received
from tocsin.sandbox.responses import Response, json_response, problem
from tocsin.sandbox.stand_in import StandIn

MOST_MESSAGES = 500

# No script, no request and no origin of its own, also where the mail is opened by itself.
_MAIL_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_DOCTYPE = re.compile(r"\s*<!doctype[^>]*>", re.IGNORECASE)
_MAIL_HEADERS = (
    ("content-type", "text/html; charset=UTF-8"),
    ("content-security-policy", _MAIL_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
)


class PageFeed(msgspec.Struct, frozen=True):
    """Reads one sandbox for its page."""

    phones: Phones
    stand_ins: Mapping[str, StandIn]

    def after(self, cursor: str) -> dict[str, Any]:
        """Return what arrived after a cursor, or the newest messages if the cursor is no longer valid.

        With `fresh` the page must drop what it had before.
        """
        newest = max(self.phones.count - MOST_MESSAGES, 0)
        after = self._number_at(cursor)
        fresh = after is None or after < newest
        start = newest if after is None else max(after, newest)
        messages = list(self.phones.messages(after=start, limit=MOST_MESSAGES))
        return {
            "messages": [_shown(received) for received in messages],
            "cursor": _cursor(messages[-1]) if messages else "" if fresh else cursor,
            "fresh": fresh,
            "total": self.phones.count,
            "providers": [_state(name, stand_in) for name, stand_in in self.stand_ins.items()],
        }

    def message(self, path: str) -> Response:
        """Return message `{number}` as JSON, or the HTML of a mail for `{number}/html`."""
        number, _, part = path.partition("/")
        received = self._find(number)
        if received is None or part not in {"", "html"}:
            return problem(404, "unknown_message", f"There is no message {path}, or it is no longer kept.")
        if not part:
            return json_response(received)
        html = received.message.get("html")
        if received.provider != "smtp" or not isinstance(html, str):
            return problem(404, "no_html", f"Message {number} has no HTML part.")
        return Response("ok", 200, _with_blank_target(html).encode(), _MAIL_HEADERS)

    def _find(self, number: str) -> Received | None:
        if not number.isdecimal() or not 1 <= int(number) <= self.phones.count:
            return None
        found = next(self.phones.messages(after=int(number) - 1, limit=1), None)
        return found if found and found.number == int(number) else None

    def _number_at(self, cursor: str) -> int | None:
        """Return the message number of a cursor; None if the sandbox was reset or restarted since."""
        if not cursor:
            return 0 if self.phones.count == 0 else None
        last = self._find(cursor.partition(".")[0])
        return last.number if last and _cursor(last) == cursor else None


def _with_blank_target(html: str) -> str:
    """Open links in new windows, which the policy forbids; otherwise a link would navigate the frame."""
    doctype = _DOCTYPE.match(html)
    start = doctype.end() if doctype else 0
    return f'{html[:start]}<base target="_blank">{html[start:]}'


def _cursor(received: Received) -> str:
    """Return a cursor that no message of another run has."""
    return f"{received.number}.{received.at.timestamp():.6f}"


def _shown(received: Received) -> dict[str, Any]:
    fields = ("number", "at", "provider", "target_kind", "target")
    look = {"device": device_kind(received), "look": appearance(received)}
    return {name: getattr(received, name) for name in fields} | look


def _state(name: str, stand_in: StandIn) -> dict[str, Any]:
    stats, faults = stand_in.counters.stats(), stand_in.faults.active()
    counts = {field: getattr(stats, field) for field in ("requests", "delivered", "duplicates", "answers")}
    return {"name": name, **counts, "outage": faults.outage, "faults": list(_describe(faults))}


def _describe(faults: ActiveFaults) -> Iterator[str]:
    """Describe each active fault in a few words, except an outage."""
    if faults.scripts:
        count = len(faults.scripts)
        yield f"scripts for {count} target{'' if count == 1 else 's'}"
    for chance in faults.chances:
        fault = chance.fault
        name = fault.code if isinstance(fault, Refuse) else type(fault).__name__.lower()
        yield f"{chance.probability:.0%} {name}"
    if latency := faults.latency:
        most = "" if latency.max_seconds is None else f" to {latency.max_seconds * 1000:g}"
        yield f"answers take {latency.min_seconds * 1000:g}{most} ms"
    if quota := faults.project_quota:
        yield f"at most {quota.limit} per {quota.per_seconds:g} s in all"
    if quota := faults.device_quota:
        yield f"at most {quota.limit} per {quota.per_seconds:g} s a device"
