"""Warns of stored values that cannot be used, once each, so that somebody corrects them."""

from functools import lru_cache

import structlog

from tocsin.domain.decide import Facts
from tocsin.domain.people.preferences import Choice, allows
from tocsin.domain.timing.zones import ZoneChoice

MOST_REMEMBERED = 10_000

_log = structlog.stdlib.get_logger(__name__)


def warn_of_malformed(user_id: str | None, facts: Facts, zone: ZoneChoice) -> None:
    """Log an unknown time zone and unreadable preferences; both count as if not given."""
    if zone.unknown:
        _warn_of_zone(user_id, zone.unknown, zone.name)
    if allows(facts.profile.choices, facts.type.category, facts.channel) is Choice.MALFORMED_YES:
        _warn_of_preferences(user_id, facts.type.category)


@lru_cache(maxsize=MOST_REMEMBERED)
def _warn_of_zone(user_id: str | None, unknown: tuple[str, ...], used: str) -> None:
    _log.warning("time zone ignored", user_id=user_id, unknown=list(unknown), used=used)


@lru_cache(maxsize=MOST_REMEMBERED)
def _warn_of_preferences(user_id: str | None, category: str) -> None:
    _log.warning("preferences ignored", user_id=user_id, category=category)
