"""The Retry-After header: how long a server asks clients to wait."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST = timedelta(days=1)


def read_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Parse seconds or an HTTP date, at most one day; None if the header is missing or malformed."""
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        # More digits than this exceed the longest wait in any case.
        return min(timedelta(seconds=int(text[:9])), LONGEST)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(moment - now, timedelta()), LONGEST)
