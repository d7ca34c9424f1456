"""What the page asks for again and again: new messages, counts and the faults in force.

The page polls. A stream would hold a connection of the few that a browser has for one host, would have to be
ended before a listener can stop, and could not be told from a dead one; a missed poll is made up by the next.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping

import msgspec

from tocsin.sandbox.answers import Answer, json_answer, problem
from tocsin.sandbox.appearance import Appearance, DeviceKind, appearance, device_kind
from tocsin.sandbox.faults.rules import Chance, FaultPicture, Latency, Outage, Quota, Refuse
from tocsin.sandbox.phones import Phones, Received, TargetKind
from tocsin.sandbox.service import StandIn

MOST_MESSAGES = 500

# No script, no request anywhere and no place of its own, also where the mail is opened by itself.
_MAIL_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_DOCTYPE = re.compile(r"\s*<!doctype[^>]*>", re.IGNORECASE)
_MAIL_HEADERS = [
    ("content-type", "text/html; charset=UTF-8"),
    ("content-security-policy", _MAIL_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the page shows it."""

    number: int
    at: dt.datetime
    provider: str
    device: DeviceKind
    target_kind: TargetKind
    target: str
    look: Appearance


class StandInState(msgspec.Struct, frozen=True, kw_only=True):
    """One stand-in at this moment."""

    name: str
    requests: int
    delivered: int
    duplicates: int
    answers: dict[str, int]
    outage: Outage | None
    faults: list[str]


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """What came after a cursor; `fresh` when the page has to forget what it had before."""

    messages: list[Shown]
    cursor: str
    fresh: bool
    total: int
    providers: list[StandInState]


class Live:
    """Looks at one sandbox for its page."""

    def __init__(self, phones: Phones, stand_ins: Mapping[str, StandIn]) -> None:
        self._phones = phones
        self._stand_ins = stand_ins

    def feed(self, cursor: str) -> Feed:
        """Give what came after a cursor, or the newest messages where it leads nowhere any more."""
        newest = max(self._phones.count - MOST_MESSAGES, 0)
        after = self._after(cursor)
        fresh = after is None or after < newest
        start = newest if after is None else max(after, newest)
        messages = list(self._phones.messages(after=start, limit=MOST_MESSAGES))
        return Feed(
            messages=[_shown(received) for received in messages],
            cursor=_cursor(messages[-1]) if messages else "" if fresh else cursor,
            fresh=fresh,
            total=self._phones.count,
            providers=[_state(name, stand_in) for name, stand_in in self._stand_ins.items()],
        )

    def message(self, path: str) -> Answer:
        """Show `{number}` as JSON, or the HTML of a mail as `{number}/html`."""
        number, _, part = path.partition("/")
        received = self._find(number)
        if received is None or part not in {"", "html"}:
            return problem(404, "unknown_message", f"There is no message {path}, or it is no longer kept.")
        if not part:
            return json_answer(received)
        html = received.message.get("html")
        if received.provider != "smtp" or not isinstance(html, str):
            return problem(404, "no_html", f"Message {number} has no HTML part.")
        return Answer("ok", 200, _without_ways_out(html).encode(), _MAIL_HEADERS)

    def _find(self, number: str) -> Received | None:
        if not number.isdecimal() or not 1 <= int(number) <= self._phones.count:
            return None
        found = next(self._phones.messages(after=int(number) - 1, limit=1), None)
        return found if found and found.number == int(number) else None

    def _after(self, cursor: str) -> int | None:
        """Tell the number that a cursor stands for; none if the sandbox was reset since, or started anew."""
        if not cursor:
            return 0 if self._phones.count == 0 else None
        number = cursor.partition(".")[0]
        last = self._find(number)
        return last.number if last and _cursor(last) == cursor else None


def _without_ways_out(html: str) -> str:
    """Let links open new windows, which the policy forbids: else they would lead the frame elsewhere."""
    doctype = _DOCTYPE.match(html)
    start = doctype.end() if doctype else 0
    return f'{html[:start]}<base target="_blank">{html[start:]}'


def _cursor(received: Received) -> str:
    """Name a message so that none of another run is taken for it."""
    return f"{received.number}.{received.at.timestamp():.6f}"


def _shown(received: Received) -> Shown:
    return Shown(
        number=received.number,
        at=received.at,
        provider=received.provider,
        device=device_kind(received),
        target_kind=received.target_kind,
        target=received.target,
        look=appearance(received),
    )


def _state(name: str, stand_in: StandIn) -> StandInState:
    stats, picture = stand_in.tally.stats(), stand_in.faults.picture()
    return StandInState(
        name=name,
        requests=stats.requests,
        delivered=stats.delivered,
        duplicates=stats.duplicates,
        answers=stats.answers,
        outage=picture.outage,
        faults=list(fault_words(picture)),
    )


def fault_words(picture: FaultPicture) -> Iterator[str]:
    """Say in a few words each what is in force, besides an outage."""
    if picture.scripts:
        count = len(picture.scripts)
        yield f"scripts for {count} target{'' if count == 1 else 's'}"
    yield from (_chance_words(chance) for chance in picture.chances)
    if picture.latency:
        yield _latency_words(picture.latency)
    if picture.project_quota:
        yield f"{_quota_words(picture.project_quota)} in all"
    if picture.device_quota:
        yield f"{_quota_words(picture.device_quota)} a device"


def _chance_words(chance: Chance) -> str:
    fault = chance.fault
    name = fault.code if isinstance(fault, Refuse) else type(fault).__name__.lower()
    return f"{chance.probability:.0%} {name}"


def _latency_words(latency: Latency) -> str:
    least = f"{latency.min_seconds * 1000:g}"
    most = "" if latency.max_seconds is None else f" to {latency.max_seconds * 1000:g}"
    return f"answers take {least}{most} ms"


def _quota_words(quota: Quota) -> str:
    return f"at most {quota.limit} per {quota.per_seconds:g} s"
