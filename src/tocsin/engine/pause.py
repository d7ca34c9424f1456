"""Providers that have to rest."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog

from tocsin.domain.outcome import Defer

_log = structlog.stdlib.get_logger(__name__)


class Pauses:
    """Remembers until when each provider is left alone, and raises the alarm once per pause."""

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}

    def note(self, provider: str, outcome: Defer, now: datetime) -> None:
        """Let a provider rest for as long as it asked."""
        if not outcome.pauses:
            return
        fresh = self.left(provider, now) is None
        self._until[provider] = max(self._until.get(provider, now), now + outcome.after)
        if fresh:
            _log.log(
                40 if outcome.alarm else 30,
                "provider paused",
                provider=provider,
                code=outcome.code,
                detail=outcome.detail,
                until=self._until[provider].isoformat(),
                alarm=outcome.alarm,
            )

    def left(self, provider: str, now: datetime) -> timedelta | None:
        """Tell how long a provider still rests."""
        until = self._until.get(provider)
        return until - now if until and until > now else None

    def shortest(self, providers: Iterable[str], now: datetime) -> timedelta | None:
        """Tell how long it takes until one of the providers can be used; nothing if one can be now."""
        waits = [self.left(provider, now) for provider in providers]
        return min((wait for wait in waits if wait), default=None) if all(waits) else None
