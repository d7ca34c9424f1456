"""Decisions that many sent deliveries have in common: stored once, and named by each of them."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.decide import Step, quotes_person

SHARED_RULES = frozenset({"preference", "toggle", "quiet_hours"})
"""The rules that every delivery passes and that say the same of most of them."""
MOST_SETS = 1_000
"""How many sets a process makes at most: what few deliveries have in common is stored with each of them."""
MOST_LATEST = 100

_encoder = msgspec.json.Encoder()


class DecisionSet(NamedTuple):
    """Steps without their times, as they are stored, and the hash that is their id."""

    id: UUID
    steps: str


class Decided(NamedTuple):
    """The set of a delivery and when all of its rules were passed."""

    set: DecisionSet
    at: datetime


def shared_decisions(steps: tuple[Step, ...]) -> Decided | None:
    """Return the set of steps that were all passed at one moment; None for any others."""
    # Deliveries that were decided together have the same tuple.
    latest = _latest.get(id(steps))
    if latest is not None and latest[0] is steps:
        return latest[1]
    if len(_latest) >= MOST_LATEST:
        _latest.clear()
    decided = _shared_decisions(steps)
    _latest[id(steps)] = steps, decided
    return decided


def _shared_decisions(steps: Sequence[Step]) -> Decided | None:
    if not steps:
        return None
    at = steps[0].at
    parts: list[str] = []
    for step in steps:
        if step.result != "pass" or step.at is not at or step.rule not in SHARED_RULES or step.count != 1:
            return None
        parts += (step.rule, step.detail)
    key = tuple(parts)
    known = _sets.get(key)
    if known is None:
        # No set quotes a person: erasure finds what is stored with their deliveries, not what others share.
        if len(_sets) >= MOST_SETS or any(map(quotes_person, steps)):
            return None
        known = _sets[key] = _decision_set(steps)
    return Decided(known, at)


def _decision_set(steps: Sequence[Step]) -> DecisionSet:
    bare = [{"rule": step.rule, "result": step.result, "detail": step.detail} for step in steps]
    encoded = _encoder.encode(bare)
    return DecisionSet(UUID(bytes=hashlib.sha256(encoded).digest()[:16]), encoded.decode())


_sets: dict[tuple[str, ...], DecisionSet] = {}
_latest: dict[int, tuple[tuple[Step, ...], Decided | None]] = {}
