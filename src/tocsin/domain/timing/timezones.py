"""The names of time zones."""

from functools import cache
from zoneinfo import available_timezones


@cache
def _known() -> frozenset[str]:
    return frozenset(available_timezones())


def is_known_timezone(name: str) -> bool:
    """Tell whether a name is one of the IANA time zones, such as `Europe/Istanbul`."""
    return name in _known()
