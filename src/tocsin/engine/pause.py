"""Providers that have to rest."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog

from tocsin.domain.outcome import Defer

_log = structlog.stdlib.get_logger(__name__)


class Pauses:
    """Remembers until when each provider is left alone, and raises each alarm once per wait."""

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}
        self._alarmed_until: dict[tuple[str, str], datetime] = {}

    def note(self, provider: str, outcome: Defer, now: datetime) -> None:
        """Let a provider rest for as long as it asked, and tell an operator who has to act."""
        until = now + outcome.after
        source = (provider, outcome.code)
        begins = outcome.pauses and self.left(provider, now) is None
        alarms = outcome.alarm and self._alarmed_until.get(source, now) <= now
        if outcome.pauses:
            self._until[provider] = max(self._until.get(provider, now), until)
        if not begins and not alarms:
            return
        if alarms:
            self._alarmed_until[source] = until
        _log.log(
            logging.ERROR if outcome.alarm else logging.WARNING,
            "provider paused" if outcome.pauses else "deliveries held back",
            provider=provider,
            code=outcome.code,
            detail=outcome.detail,
            until=until.isoformat(),
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
