"""Tells of stored values that cannot be used, once each, so that somebody mends them."""

from functools import lru_cache

import structlog

from tocsin.domain.decide import Case, zone_of
from tocsin.domain.people.preferences import Choice, allows
from tocsin.domain.timing.quiet_hours import QuietHours

MOST_REMEMBERED = 10_000

_log = structlog.stdlib.get_logger(__name__)


def note_oddities(user_id: str | None, case: Case, quiet: QuietHours) -> None:
    """Warn of a zone nobody knows and of preferences that cannot be read; both count as if not given."""
    zone = zone_of(case, quiet)
    if zone.unknown:
        _warn_of_zone(user_id, zone.unknown, zone.name)
    if allows(case.person.choices, case.kind.category, case.channel) is Choice.MALFORMED_YES:
        _warn_of_preferences(user_id, case.kind.category)


@lru_cache(maxsize=MOST_REMEMBERED)
def _warn_of_zone(user_id: str | None, unknown: tuple[str, ...], used: str) -> None:
    _log.warning("unknown time zone, another is used", user_id=user_id, unknown=list(unknown), used=used)


@lru_cache(maxsize=MOST_REMEMBERED)
def _warn_of_preferences(user_id: str | None, category: str) -> None:
    _log.warning("preferences cannot be read and count as yes", user_id=user_id, category=category)
