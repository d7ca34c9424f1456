"""The bounds of times that a caller gives: far ones overflow in time zones, in Python or in Postgres."""

from datetime import datetime, timedelta

from tocsin.domain.faults import Fault

YEARS = range(1900, 9_999)
FURTHEST_SEND_AT = timedelta(days=366)
LONGEST_AHEAD = 14 * 24
"""How many hours of the schedule are listed at most."""


def moment_faults(field: str, moment: datetime) -> list[Fault]:
    """List what is wrong with a time that a caller gave."""
    if moment.year in YEARS:
        return []
    message = f"lies outside the years {YEARS[0]} to {YEARS[-1]}"
    return [Fault(field=field, code="out_of_range", message=message)]


def send_time_faults(field: str, moment: datetime, now: datetime) -> list[Fault]:
    """List what is wrong with the time at which something is to be sent."""
    faults = moment_faults(field, moment)
    if not faults and moment > now + FURTHEST_SEND_AT:
        message = f"is more than {FURTHEST_SEND_AT.days} days away"
        faults.append(Fault(field=field, code="too_far", message=message))
    return faults
