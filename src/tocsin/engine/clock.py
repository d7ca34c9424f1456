"""The one clock. Everything that decides by time takes it as an argument."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """Tell the time."""
    return datetime.now(UTC)
