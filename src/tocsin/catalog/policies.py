"""The section `policies` of a type: checked, then parsed."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from tocsin.catalog.schema import KeyPath, SchemaViolation
from tocsin.domain.catalog import Policies
from tocsin.domain.delivery.backoff import parse_backoff, parse_duration
from tocsin.domain.digest import NAMES

_DURATIONS = {
    "throttle": ("per",),
    "digest": ("window",),
    "failover": ("after",),
    "recover": ("every", "for"),
}
"""The fields of each policy that are durations."""

_MOMENT = timedelta(microseconds=1)
_RANGES = {
    ("digest", "window"): (_MOMENT, timedelta(days=30)),
    ("failover", "after"): (_MOMENT, timedelta(days=7)),
    ("recover", "every"): (timedelta(minutes=1), timedelta(days=1)),
    ("recover", "for"): (timedelta(0), timedelta(days=28)),
}


def each_version(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """List the versions that a type declares, the newest first, each with its key path in the file."""
    yield (name,), entry
    for number, older in entry.get("versions", {}).items():
        yield (name, "versions", number), older


def policy_violations(name: str, entry: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    """List what is wrong with the policies of a type beyond what the JSON Schema of the file checks."""
    policies, section = entry.get("policies", {}), (name, "policies")
    try:
        parse_backoff(policies["backoff"]) if "backoff" in policies else None
    except ValueError as error:
        yield SchemaViolation((*section, "backoff"), "backoff", str(error))
    for policy, field in _durations(policies):
        if problem := _duration_problem(policy, field, policies[policy][field]):
            yield SchemaViolation((*section, policy, field), policy, problem)
    if "digest" in policies:
        yield from _digest_violations(name, entry, (*section, "digest"))
    if "failover" in policies:
        yield from _failover_violations(name, entry, (*section, "failover"))
    if "ordering_group" in policies and not policies.get("ordered"):
        message = "only ordered types have an ordering group; add ordered: true"
        yield SchemaViolation((*section, "ordering_group"), "ordering_group", message)
    for channel in policies.get("attempts", {}):
        if channel not in entry["channels"]:
            yield SchemaViolation(
                (*section, "attempts", channel), "channel", f"{name} has no channel {channel}"
            )


def parse_policies(section: Mapping[str, Any], defaults: Policies) -> Policies:
    """Parse a section `policies` that has no violations; what it does not declare is as in `defaults`."""
    parsed = dict(section)
    if "backoff" in section:
        parsed["backoff"] = parse_backoff(section["backoff"])
    for policy, field in _durations(section):
        parsed[policy] = {**parsed[policy], field: parse_duration(section[policy][field])}
    if "recover" in section and defaults.recover is not None:
        parsed["recover"] = {"every": defaults.recover.every, "for": defaults.recover.lasts} | parsed[
            "recover"
        ]
    if "attempts" in section:
        parsed["attempts"] = {**defaults.attempts, **section["attempts"]}
    declared = msgspec.convert(parsed, Policies)
    return msgspec.structs.replace(defaults, **{name: getattr(declared, name) for name in section})


def _durations(policies: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List the durations of a section, each as its policy and field."""
    for policy, fields in _DURATIONS.items():
        yield from ((policy, field) for field in fields if field in policies.get(policy, {}))


def _duration_problem(policy: str, field: str, text: str) -> str | None:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        return str(error)
    if (policy, field) not in _RANGES:
        return None
    shortest, longest = _RANGES[policy, field]
    if shortest <= duration <= longest:
        return None
    least = f"at least {int(shortest.total_seconds())}s" if shortest != _MOMENT else "longer than 0"
    return f"must be {least} and at most {longest.days}d, not {text}"


def _digest_violations(name: str, entry: Mapping[str, Any], section: KeyPath) -> Iterator[SchemaViolation]:
    policies = entry["policies"]
    if policies.get("ordered"):
        message = "the notifications of a digest have no order; remove digest or ordered"
        yield SchemaViolation(section, "digest", message)
    by = policies["digest"].get("by")
    for key_path, version in each_version(name, entry):
        if "upgrade" in version:
            continue
        fields = version["payload"].get("properties", {})
        if by is not None and by not in fields:
            message = f"{by!r} is not a field of the payload, which has: {', '.join(fields) or 'none'}"
            yield SchemaViolation((*section, "by"), "digest", message)
        for reserved in NAMES:
            if reserved in fields:
                message = f"the templates of a digest use {reserved} for its own list; rename the field"
                yield SchemaViolation((*key_path, "payload", "properties", reserved), "reserved", message)


def _failover_violations(name: str, entry: Mapping[str, Any], section: KeyPath) -> Iterator[SchemaViolation]:
    policies, channels = entry["policies"], entry["channels"]
    target, after = policies["failover"]["to"], policies["failover"]["after"]
    if "push" not in channels:
        yield SchemaViolation(section, "failover", f"only a push fails over, and {name} has no channel push")
    if target == "push" or target not in channels:
        others = ", ".join(channel for channel in channels if channel != "push") or "none"
        message = f"{target} is not another channel of {name}, which has besides push: {others}"
        yield SchemaViolation((*section, "to"), "failover", message)
    if "digest" in policies:
        message = "a digest has no push of its own to wait for; remove digest or failover"
        yield SchemaViolation(section, "failover", message)
    ttl = policies.get("ttl_seconds", 0)
    if (
        _duration_problem("failover", "after", after) is None
        and 0 < ttl <= parse_duration(after).total_seconds()
    ):
        message = f"must be shorter than ttl_seconds ({ttl}), when everything has expired"
        yield SchemaViolation((*section, "after"), "failover", message)
