"""Measurements beside the race."""

from bench.contract import Line
from bench.lines.accept import Accept
from bench.lines.claim import ClaimCost
from bench.lines.planning import Planning

LINES: tuple[Line, ...] = (Accept(), ClaimCost(), Planning())
