"""Measurements beside the race."""

from bench.contract import Line
from bench.lines.accept import Accept
from bench.lines.claim import ClaimCost
from bench.lines.planning import Planning
from bench.lines.providers import Providers

LINES: tuple[Line, ...] = (Accept(), ClaimCost(), Planning(), Providers())
