"""From the section `policies` of a type to what it means, or to what is wrong with it."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from tocsin.catalog.source import Source
from tocsin.domain.catalog import DEFAULT_BACKOFF, Digest, Failover, Policies, Throttle
from tocsin.domain.delivery.backoff import parse_backoff, parse_duration
from tocsin.domain.digest import NAMES
from tocsin.domain.faults import Fault

LONGEST_WINDOW = timedelta(days=30)
LONGEST_FAILOVER = timedelta(days=7)


def wrong_policies(source: Source, name: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    """Check what a schema of the file cannot say."""
    policies = entry.get("policies", {})
    try:
        parse_backoff(policies["backoff"]) if "backoff" in policies else None
    except ValueError as error:
        yield source.fault((name, "policies", "backoff"), "backoff", str(error))
    try:
        parse_duration(policies["throttle"]["per"]) if "throttle" in policies else None
    except ValueError as error:
        yield source.fault((name, "policies", "throttle", "per"), "throttle", str(error))
    if "digest" in policies:
        yield from _wrong_digest(source, name, entry)
    if "failover" in policies:
        yield from _wrong_failover(source, name, entry)
    for channel in policies.get("attempts", {}):
        if channel not in entry["channels"]:
            field = (name, "policies", "attempts", channel)
            yield source.fault(field, "channel", f"{name} has no channel {channel}")


def _wrong_digest(source: Source, name: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    place = (name, "policies", "digest")
    policies = entry["policies"]
    try:
        if not timedelta(0) < parse_duration(policies["digest"]["window"]) <= LONGEST_WINDOW:
            message = f"the window must be longer than 0 and at most {LONGEST_WINDOW.days}d"
            yield source.fault((*place, "window"), "digest", message)
    except ValueError as error:
        yield source.fault((*place, "window"), "digest", str(error))
    if policies.get("ordered"):
        message = "what is collected has no order of its own; remove digest or ordered"
        yield source.fault(place, "digest", message)
    by = policies["digest"].get("by")
    older = entry.get("versions", {})
    told = {(name,): entry} | {
        (name, "versions", number): each for number, each in older.items() if "upgrade" not in each
    }
    for version, each in told.items():
        fields = each["payload"].get("properties", {})
        if by is not None and by not in fields:
            message = f"{by!r} is not a field of the payload, which has: {', '.join(fields) or 'none'}"
            yield source.fault((*place, "by"), "digest", message)
        for taken in NAMES:
            if taken in fields:
                message = f"the texts of a digest have a {taken} of their own; rename the field"
                yield source.fault((*version, "payload", "properties", taken), "reserved", message)


def _wrong_failover(source: Source, name: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    place = (name, "policies", "failover")
    policies, channels = entry["policies"], entry["channels"]
    target = policies["failover"]["to"]
    if "push" not in channels:
        message = f"only a push fails over, and {name} has no channel push"
        yield source.fault(place, "failover", message)
    if target == "push" or target not in channels:
        others = ", ".join(channel for channel in channels if channel != "push") or "none"
        message = f"{target} is no other channel of {name}, which has besides push: {others}"
        yield source.fault((*place, "to"), "failover", message)
    if "digest" in policies:
        message = "a digest has no push of its own to wait for; remove digest or failover"
        yield source.fault(place, "failover", message)
    try:
        after = parse_duration(policies["failover"]["after"])
    except ValueError as error:
        yield source.fault((*place, "after"), "failover", str(error))
        return
    if not timedelta(0) < after <= LONGEST_FAILOVER:
        message = f"the wait must be longer than 0 and at most {LONGEST_FAILOVER.days}d"
        yield source.fault((*place, "after"), "failover", message)
    elif 0 < policies.get("ttl_seconds", 0) <= after.total_seconds():
        message = f"after ttl_seconds ({policies['ttl_seconds']}) everything has expired; wait less long"
        yield source.fault((*place, "after"), "failover", message)


def policies_of(entry: Mapping[str, Any]) -> Policies:
    """Read policies that were found right."""
    read: dict[str, Any] = dict(entry)
    read["backoff"] = parse_backoff(entry["backoff"]) if "backoff" in entry else DEFAULT_BACKOFF
    if "throttle" in entry:
        read["throttle"] = Throttle(
            limit=entry["throttle"]["limit"],
            per=parse_duration(entry["throttle"]["per"]),
            beyond=entry["throttle"].get("beyond", "skip"),
        )
    if "digest" in entry:
        read["digest"] = Digest(
            window=parse_duration(entry["digest"]["window"]), by=entry["digest"].get("by")
        )
    if "failover" in entry:
        read["failover"] = Failover(
            to=entry["failover"]["to"], after=parse_duration(entry["failover"]["after"])
        )
    return Policies(**read)
