"""Decides whether, when and where one recipient gets one notification by one channel, and records why."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, TypeAlias, assert_never
from uuid import UUID

import msgspec

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.delivery.held_by import HeldBy, HeldByOrder, HeldByToggle
from tocsin.domain.delivery.reasons import MEANING, Reason, Rule
from tocsin.domain.people.preferences import Choice, allows
from tocsin.domain.people.profile import UNKNOWN_RECIPIENT, Destination, RecipientProfile
from tocsin.domain.people.recipient import ConditionRecipient, TopicRecipient, Topics, topics_at
from tocsin.domain.plan import GATEWAY_STREAM, INBOX, MAIL_STREAM, TOPIC_PROVIDER, due_time
from tocsin.domain.timing.quiet_hours import QuietHours, WindowChoice
from tocsin.domain.timing.wall_clock import instant_of
from tocsin.domain.timing.windows import hold_until
from tocsin.domain.timing.zones import ZoneChoice, choose_zone
from tocsin.domain.toggles import Toggle

MAIL_PROVIDER = "smtp"
WEBHOOK = "webhook"
_UNKNOWN = "; unknown: "
_UNREADABLE = "; the person's own cannot be read: "


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one rule for one delivery; `count` is how many times in a row, the last of them `at`."""

    rule: Rule
    result: Literal["pass", "hold", "skip"]
    detail: str
    at: datetime
    until: datetime | None = None
    count: int = 1


class Go(msgspec.Struct, frozen=True):
    """Every rule passed: it may be sent to these destinations."""

    steps: tuple[Step, ...]
    destinations: tuple[Destination, ...]


class Wait(msgspec.Struct, frozen=True):
    """Decide again at `until`."""

    steps: tuple[Step, ...]
    until: datetime


class Hold(msgspec.Struct, frozen=True):
    """Decide again when `held_by` is released."""

    steps: tuple[Step, ...]
    held_by: HeldBy


class Skip(msgspec.Struct, frozen=True):
    """Never send it, for this reason."""

    steps: tuple[Step, ...]
    reason: Reason


class Cancel(msgspec.Struct, frozen=True):
    """Its producer cancelled it, or it is not needed any more for this reason."""

    steps: tuple[Step, ...]
    reason: Reason | None = None


class Expire(msgspec.Struct, frozen=True):
    """Its time to live is over."""

    steps: tuple[Step, ...]


Refusal: TypeAlias = Wait | Hold | Skip | Cancel | Expire
Verdict: TypeAlias = Go | Refusal


class FailoverState(msgspec.Struct, frozen=True):
    """The state of the channel that this delivery is the fallback for.

    `confirmed` means that it was sent; `awaited_at` is when it is due first, where that is still ahead.
    """

    channel: Channel
    after: timedelta
    confirmed: bool
    awaited_at: datetime | None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a decision depends on.

    `order_blockers` are the devices that earlier deliveries of the ordering group still wait for, None for
    one that has no device yet. `newer` are the facts of a newer message with the same collapse key.
    `superseded` means that the fallback for it was sent.
    """

    type: NotificationType
    channel: Channel
    now: datetime
    profile: RecipientProfile = UNKNOWN_RECIPIENT
    user_id: str | None = None
    address: str | None = None
    device_id: UUID | None = None
    switched_off: Toggle | None = None
    order_blockers: AbstractSet[UUID | None] = frozenset()
    newer: "Facts | None" = None
    failover: FailoverState | None = None
    cancelled: bool = False
    superseded: bool = False
    expires_at: datetime | None = None
    send_at_local: datetime | None = None
    accepted_at: datetime | None = None
    random: float = 0.0


def decide(facts: Facts, quiet: QuietHours, providers: AbstractSet[str]) -> Verdict:
    """Apply every rule in turn; the first that objects decides."""
    steps: list[Step] = []
    zone = zone_of(facts, quiet)
    for step, refusal in _rules(facts, quiet, zone):
        steps.append(step)
        if refusal is not None:
            return msgspec.structs.replace(refusal, steps=tuple(steps))
    found = destinations(
        facts.channel,
        facts.profile,
        user_id=facts.user_id,
        address=facts.address,
        device_id=facts.device_id,
        providers=providers,
    )
    if isinstance(found, Reason):
        steps.append(Step(rule="device", result="skip", detail=MEANING[found], at=facts.now))
        return Skip(tuple(steps), found)
    if facts.newer is not None and isinstance(decide(facts.newer, quiet, providers), Go):
        detail = "a newer one with the same collapse key is due"
        steps.append(Step(rule="collapse_key", result="skip", detail=detail, at=facts.now))
        return Skip(tuple(steps), Reason.COLLAPSED)
    return Go(tuple(steps), found)


def quotes_person(step: Step) -> bool:
    """Return whether a step quotes what somebody entered, as far as it could not be used."""
    return _UNKNOWN in step.detail or _UNREADABLE in step.detail


def zone_of(facts: Facts, quiet: QuietHours) -> ZoneChoice:
    """Choose the zone of the day of the person whom a delivery is for."""
    return zone_of_person(facts.profile, quiet)


def zone_of_person(profile: RecipientProfile, quiet: QuietHours) -> ZoneChoice:
    """Choose the zone of a person's day: that of the device used last comes first."""
    default = quiet.default_timezone or "UTC"
    return choose_zone(device_timezone(profile), profile.timezone, profile.gmt_offset_seconds, default)


def device_timezone(profile: RecipientProfile) -> str | None:
    """Return the time zone of the device that a person used last."""
    for device in profile.devices:
        if device.provider != WEBHOOK:
            return device.timezone
    return profile.device_timezone


def expiry_of(facts: Facts, zone: ZoneChoice) -> datetime | None:
    """Return when the time to live ends.

    It begins when a person can first get it: for a wall time, when their own clock shows it.
    """
    if facts.expires_at is None or facts.send_at_local is None or facts.accepted_at is None:
        return facts.expires_at
    starts = due_time(None, facts.send_at_local, facts.accepted_at)
    return facts.expires_at + (max(instant_of(facts.send_at_local, zone.zone), starts) - starts)


def _rules(facts: Facts, quiet: QuietHours, zone: ZoneChoice) -> Iterator[tuple[Step, Refusal | None]]:
    now = facts.now
    if facts.cancelled:
        step = Step(rule="cancelled", result="skip", detail="cancelled by its producer", at=now)
        yield step, Cancel(())
    if facts.superseded:
        step = Step(rule="failover", result="skip", detail="the fallback was sent first", at=now)
        yield step, Cancel((), Reason.SUPERSEDED_BY_FAILOVER)
    expires_at = expiry_of(facts, zone)
    if expires_at is not None and expires_at <= now:
        detail = f"its time to live ended {expires_at:%Y-%m-%d %H:%M:%S %Z}"
        yield Step(rule="time_to_live", result="skip", detail=detail, at=now), Expire(())
    yield _preference(facts)
    yield _toggle(facts)
    if facts.failover is not None:
        yield _failover(facts.failover, now)
    # One that has its device waits for earlier ones to that device; one without is fanned out first.
    if None in facts.order_blockers or (facts.device_id and facts.device_id in facts.order_blockers):
        yield order_step(now), Hold((), HeldByOrder())
    if facts.send_at_local is not None:
        yield _local_time(facts, zone, facts.send_at_local)
    yield _quiet_hours(facts, quiet, zone)


def order_step(now: datetime) -> Step:
    """Build the step of a delivery that waits for an earlier one of its ordering group."""
    return Step(rule="order", result="hold", detail="an earlier one of its group is not settled yet", at=now)


def _preference(facts: Facts) -> tuple[Step, Skip | None]:
    category = facts.type.category
    choice = allows(facts.profile.choices, category, facts.channel)
    if facts.type.policies.critical:
        detail = f"critical: preferences for {category!r} do not count"
    elif choice is Choice.NO:
        detail = f"opted out of {category!r} by {facts.channel}"
        return Step(rule="preference", result="skip", detail=detail, at=facts.now), Skip((), Reason.OPTED_OUT)
    else:
        detail = _allowed(category, facts.channel, choice)
    return Step(rule="preference", result="pass", detail=detail, at=facts.now), None


_CHOICES = {
    Choice.YES: "wanted",
    Choice.DEFAULT_YES: "not refused",
    Choice.MALFORMED_YES: "unreadable, which counts as yes",
}


def _toggle(facts: Facts) -> tuple[Step, Hold | None]:
    toggle = facts.switched_off
    if toggle is None:
        return Step(rule="toggle", result="pass", detail="switched on", at=facts.now), None
    step = Step(rule="toggle", result="hold", detail=f"{toggle} is switched off", at=facts.now)
    return step, Hold((), HeldByToggle(toggle))


def _failover(first: FailoverState, now: datetime) -> tuple[Step, Wait | Skip | None]:
    if first.confirmed:
        detail = f"the {first.channel} was sent in time"
        step = Step(rule="failover", result="skip", detail=detail, at=now)
        return step, Skip((), Reason.FAILOVER_NOT_NEEDED)
    if first.awaited_at is not None and first.awaited_at + first.after > now:
        until = first.awaited_at + first.after
        detail = f"the {first.channel} has its own time first"
        return Step(rule="failover", result="hold", detail=detail, at=now, until=until), Wait((), until)
    detail = f"the {first.channel} was not sent in time"
    return Step(rule="failover", result="pass", detail=detail, at=now), None


def _local_time(facts: Facts, zone: ZoneChoice, wall: datetime) -> tuple[Step, Wait | None]:
    due = instant_of(wall, zone.zone)
    detail = asked_for(wall, zone)
    if due <= facts.now:
        return Step(rule="local_time", result="pass", detail=detail, at=facts.now), None
    return Step(rule="local_time", result="hold", detail=detail, at=facts.now, until=due), Wait((), due)


def asked_for(wall: datetime, zone: ZoneChoice) -> str:
    """Describe a wall time and the zone it is read in."""
    return f"asked for {wall:%Y-%m-%d %H:%M} {_placed(zone)}"


def _quiet_hours(facts: Facts, quiet: QuietHours, zone: ZoneChoice) -> tuple[Step, Wait | None]:
    if not quiet.enabled:
        return Step(
            rule="quiet_hours", result="pass", detail="quiet hours are switched off", at=facts.now
        ), None
    if facts.type.policies.urgent:
        detail = "urgent: quiet hours do not count"
        return Step(rule="quiet_hours", result="pass", detail=detail, at=facts.now), None
    if facts.channel not in quiet.channels:
        detail = f"quiet hours do not hold {facts.channel}"
        return Step(rule="quiet_hours", result="pass", detail=detail, at=facts.now), None
    if zone.source == "default" and quiet.default_timezone is None:
        detail = "the person's time zone is unknown, and quiet_hours.default_timezone is not set"
        return Step(rule="quiet_hours", result="pass", detail=detail, at=facts.now), None
    choice = quiet.window_for(facts.type.category, facts.profile.allowed_window)
    until = hold_until(facts.now, zone.zone, choice.window, spread=quiet.spread, random=facts.random)
    if until is None:
        return Step(rule="quiet_hours", result="pass", detail=_open(choice, zone), at=facts.now), None
    detail = f"quiet hours {choice.window.quiet} {_placed(zone)}, of the {choice.source}{_doubt(choice)}"
    step = Step(rule="quiet_hours", result="hold", detail=detail, at=facts.now, until=until)
    return step, Wait((), until)


@lru_cache(maxsize=4096)
def _open(choice: WindowChoice, zone: ZoneChoice) -> str:
    return f"within {choice.window} {_placed(zone)}, the window of the {choice.source}{_doubt(choice)}"


def _doubt(choice: WindowChoice) -> str:
    return f"{_UNREADABLE}{choice.malformed}" if choice.malformed else ""


@lru_cache(maxsize=4096)
def _allowed(category: str, channel: Channel, choice: Choice) -> str:
    return f"{category!r} by {channel}: {_CHOICES[choice]}"


def _placed(zone: ZoneChoice) -> str:
    """Describe the zone, where it came from, and what could not be used."""
    unknown = f"{_UNKNOWN}{', '.join(zone.unknown)}" if zone.unknown else ""
    return f"{zone.name} (from the {zone.source}{unknown})"


def destinations(
    channel: Channel,
    profile: RecipientProfile,
    *,
    user_id: str | None,
    address: str | None,
    device_id: UUID | None,
    providers: AbstractSet[str],
) -> tuple[Destination, ...] | Reason:
    """List where a delivery can be sent by the configured providers, or return why it cannot."""
    if channel == "push" and user_id is not None and GATEWAY_STREAM in providers:
        return (Destination(None, user_id, GATEWAY_STREAM, "gateway"),)
    if channel == INBOX and user_id is not None:
        # Everybody has one: no device and no address is needed.
        own = Destination(None, user_id, INBOX, "inbox")
        return (own,) if INBOX in providers else Reason.PROVIDER_UNAVAILABLE
    if channel == "email":
        return _mailbox(profile, providers)
    if address is not None and (topics := topics_at(address)) is not None:
        return (_topic(topics),) if TOPIC_PROVIDER in providers else Reason.PROVIDER_UNAVAILABLE
    return _devices(channel, profile, device_id, providers)


def _devices(
    channel: Channel, profile: RecipientProfile, device_id: UUID | None, providers: AbstractSet[str]
) -> tuple[Destination, ...] | Reason:
    is_webhook, has_any, usable = channel == WEBHOOK, False, []
    for device in profile.devices:
        provider = device.provider
        if (provider == WEBHOOK) == is_webhook:
            has_any = True
            if provider in providers:
                usable.append(device)
    if usable:
        return tuple(usable)
    if has_any:
        return Reason.PROVIDER_UNAVAILABLE
    if device_id is not None:
        return Reason.DEVICE_LOST
    return Reason.NO_ENDPOINT if channel == "webhook" else Reason.NO_DEVICE


def _mailbox(profile: RecipientProfile, providers: AbstractSet[str]) -> tuple[Destination, ...] | Reason:
    if profile.mailbox is None:
        return Reason.NO_ADDRESS
    if profile.suppressed:
        return Reason.ADDRESS_SUPPRESSED
    for provider in (MAIL_STREAM, MAIL_PROVIDER):
        if provider in providers:
            return (Destination(None, profile.mailbox, provider, "email"),)
    return Reason.PROVIDER_UNAVAILABLE


def _topic(topics: Topics) -> Destination:
    match topics:
        case TopicRecipient(topic=topic):
            return Destination(None, topic, TOPIC_PROVIDER, "topic", token_kind="topic")  # noqa: S106 - no secret
        case ConditionRecipient(condition=condition):
            return Destination(None, condition, TOPIC_PROVIDER, "topic", token_kind="condition")  # noqa: S106 - no secret
        case _:
            assert_never(topics)
