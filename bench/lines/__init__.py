"""Measurements beside the race."""

from bench.contract import Line
from bench.lines.accept import Accept
from bench.lines.claim import ClaimCost

LINES: tuple[Line, ...] = (Accept(), ClaimCost())
