"""Whether and when one person hears of one notification by one channel, and why."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.delivery.reasons import Reason, Rule
from tocsin.domain.people.preferences import Choice, StoredChoices, allows
from tocsin.domain.plan import due_time
from tocsin.domain.timing.quiet_hours import QuietHours, WindowChoice
from tocsin.domain.timing.wall_clock import instant_of
from tocsin.domain.timing.windows import hold_until
from tocsin.domain.timing.zones import ZoneChoice, choose_zone


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule, asked once, and what it said."""

    rule: Rule
    result: Literal["pass", "hold", "skip"]
    detail: str
    at: datetime
    until: datetime | None = None


class Go(msgspec.Struct, frozen=True):
    """Nothing stands against it."""

    steps: tuple[Step, ...]


class Hold(msgspec.Struct, frozen=True):
    """Not now: at `until`, or when what `held_by` names lets it go."""

    steps: tuple[Step, ...]
    until: datetime | None = None
    held_by: str | None = None


class Skip(msgspec.Struct, frozen=True):
    """Never, and why; what was cancelled or expired has states of its own."""

    steps: tuple[Step, ...]
    reason: Reason | Literal["cancelled", "expired"]


Verdict: TypeAlias = Go | Hold | Skip


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a person, as far as it decides anything."""

    timezone: str | None = None
    gmt_offset_seconds: int | None = None
    allowed_window: str | None = None
    choices: StoredChoices | None = None


NOBODY = Person()


class FailoverState(msgspec.Struct, frozen=True):
    """How it is with the channel that a delivery stands in for.

    `confirmed` tells that it has reached the person, `awaited_at` when it will be tried first, if it
    waits for its time.
    """

    channel: Channel
    after: timedelta
    confirmed: bool
    awaited_at: datetime | None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a decision depends on.

    The zone is that of the device the person used last: it tells where they are.
    """

    kind: NotificationType
    channel: Channel
    now: datetime
    person: Person = NOBODY
    device_timezone: str | None = None
    off_by: str | None = None
    behind: bool = False
    superseded: bool = False
    stands_in: FailoverState | None = None
    cancelled: bool = False
    expires_at: datetime | None = None
    send_at_local: datetime | None = None
    accepted_at: datetime | None = None
    random: float = 0.0


def decide(case: Case, quiet: QuietHours) -> Verdict:
    """Ask every rule in turn; the first that objects decides."""
    steps: list[Step] = []
    zone = zone_of(case, quiet)
    for step, verdict in _rules(case, quiet, zone):
        steps.append(step)
        if verdict is not None:
            return msgspec.structs.replace(verdict, steps=tuple(steps))
    return Go(tuple(steps))


def zone_of(case: Case, quiet: QuietHours) -> ZoneChoice:
    """Choose the zone in which a person's day is reckoned."""
    person = case.person
    return choose_zone(
        case.device_timezone, person.timezone, person.gmt_offset_seconds, quiet.default_timezone
    )


def expiry_of(case: Case, zone: ZoneChoice) -> datetime | None:
    """Tell when it is too late.

    A time to live begins when a person can first get it: for a wall time, when their own clock shows it.
    """
    if case.expires_at is None or case.send_at_local is None or case.accepted_at is None:
        return case.expires_at
    starts = due_time(None, case.send_at_local, case.accepted_at)
    return case.expires_at + (max(instant_of(case.send_at_local, zone.zone), starts) - starts)


def _rules(case: Case, quiet: QuietHours, zone: ZoneChoice) -> Iterator[tuple[Step, Hold | Skip | None]]:
    now = case.now
    if case.cancelled:
        yield _skip("cancelled", "taken back by its producer", now, "cancelled")
    expires_at = expiry_of(case, zone)
    if expires_at is not None and expires_at <= now:
        yield _skip("time_to_live", f"its time to live ended {_shown(expires_at)}", now, "expired")
    if case.superseded:
        yield _skip("collapse_key", "a newer one with the same collapse key waits", now, Reason.COLLAPSED)
    yield _preference(case)
    yield _toggle(case)
    if case.stands_in is not None:
        yield _failover(case.stands_in, now)
    if case.behind:
        step = Step(rule="order", result="hold", detail="an earlier one is not settled yet", at=now)
        yield step, Hold((), held_by="order")
    if case.send_at_local is not None:
        yield _local_time(case, zone, case.send_at_local)
    yield _quiet_hours(case, quiet, zone)


def _preference(case: Case) -> tuple[Step, Skip | None]:
    category = case.kind.category
    choice = allows(case.person.choices, category, case.channel)
    if case.kind.policies.critical:
        detail = f"critical: preferences for {category!r} do not count"
    elif choice is Choice.NO:
        return _skip("preference", f"opted out of {category!r} by {case.channel}", case.now, Reason.OPTED_OUT)
    else:
        detail = _allowed(category, case.channel, choice)
    return Step(rule="preference", result="pass", detail=detail, at=case.now), None


_CHOICES = {
    Choice.YES: "wanted",
    Choice.DEFAULT_YES: "not refused",
    Choice.MALFORMED_YES: "unreadable, which counts as yes",
}


def _toggle(case: Case) -> tuple[Step, Hold | None]:
    if case.off_by is None:
        return Step(rule="toggle", result="pass", detail="switched on", at=case.now), None
    step = Step(rule="toggle", result="hold", detail=f"{case.off_by} is switched off", at=case.now)
    return step, Hold((), held_by=case.off_by)


def _failover(first: FailoverState, now: datetime) -> tuple[Step, Hold | Skip | None]:
    if first.confirmed:
        detail = f"the {first.channel} was sent in time"
        return _skip("failover", detail, now, Reason.FAILOVER_NOT_NEEDED)
    if first.awaited_at is not None and first.awaited_at + first.after > now:
        until = first.awaited_at + first.after
        detail = f"the {first.channel} has its own time first"
        return Step(rule="failover", result="hold", detail=detail, at=now, until=until), Hold((), until=until)
    return Step(
        rule="failover", result="pass", detail=f"the {first.channel} was not sent in time", at=now
    ), None


def _local_time(case: Case, zone: ZoneChoice, wall: datetime) -> tuple[Step, Hold | None]:
    due = instant_of(wall, zone.zone)
    detail = f"asked for {wall:%Y-%m-%d %H:%M} {_placed(zone)}"
    if due <= case.now:
        return Step(rule="local_time", result="pass", detail=detail, at=case.now), None
    return Step(rule="local_time", result="hold", detail=detail, at=case.now, until=due), Hold((), until=due)


def _quiet_hours(case: Case, quiet: QuietHours, zone: ZoneChoice) -> tuple[Step, Hold | None]:
    if case.kind.policies.urgent:
        return Step(
            rule="quiet_hours", result="pass", detail="urgent: quiet hours do not count", at=case.now
        ), None
    choice = quiet.window_for(case.kind.category, case.person.allowed_window)
    until = hold_until(case.now, zone.zone, choice.window, spread=quiet.spread, random=case.random)
    if until is None:
        return Step(rule="quiet_hours", result="pass", detail=_open(choice, zone), at=case.now), None
    detail = f"quiet hours {choice.window.quiet} {_placed(zone)}, of the {choice.source}{_doubt(choice)}"
    return Step(rule="quiet_hours", result="hold", detail=detail, at=case.now, until=until), Hold(
        (), until=until
    )


@lru_cache(maxsize=4096)
def _open(choice: WindowChoice, zone: ZoneChoice) -> str:
    return f"within {choice.window} {_placed(zone)}, the window of the {choice.source}{_doubt(choice)}"


def _doubt(choice: WindowChoice) -> str:
    return f"; the person's own cannot be read: {choice.malformed}" if choice.malformed else ""


@lru_cache(maxsize=4096)
def _allowed(category: str, channel: Channel, choice: Choice) -> str:
    return f"{category!r} by {channel}: {_CHOICES[choice]}"


def _placed(zone: ZoneChoice) -> str:
    """Say which zone, where it came from, and what could not be used."""
    unknown = f"; unknown: {', '.join(zone.unknown)}" if zone.unknown else ""
    return f"{zone.name} (from the {zone.source}{unknown})"


def _skip(
    rule: Rule, detail: str, now: datetime, reason: Reason | Literal["cancelled", "expired"]
) -> tuple[Step, Skip]:
    return Step(rule=rule, result="skip", detail=detail, at=now), Skip((), reason)


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"
