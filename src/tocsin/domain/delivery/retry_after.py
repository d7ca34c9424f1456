"""The Retry-After header: how long a server asks to be left alone."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST = timedelta(days=1)


def read_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Read seconds or an HTTP date; what makes no sense counts as not said, and a day is the most."""
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        # Anything longer than this many digits is beyond the longest wait anyway.
        return min(timedelta(seconds=int(text[:9])), LONGEST)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(moment - now, timedelta()), LONGEST)
