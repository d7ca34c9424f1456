"""The measurements beside the race, in the order of the tables."""

from bench.contract import Line

LINES: tuple[Line, ...] = ()
