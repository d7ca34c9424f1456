"""Warns where what is published looks like personal data."""

import time

import structlog

from tocsin.domain.personal_data import suspected_personal_data
from tocsin.telemetry import metrics
from tocsin.wire.fisa.envelope import FisaEnvelope

WARN_EVERY_SECONDS = 3_600.0
MOST_TYPES = 1_000
MOST_FIELDS = 20

_log = structlog.stdlib.get_logger(__name__)


class PersonalDataWarnings:
    """Counts every suspicious event, and logs one of each type in an hour: its fields, never their values."""

    def __init__(self, outbox: str) -> None:
        self._outbox = outbox
        self._warned: dict[str, float] = {}

    def check(self, envelope: FisaEnvelope) -> None:
        """Check one envelope."""
        shown = {
            "title": envelope.title,
            "body": envelope.body,
            "deep_link": envelope.deep_link,
            "extras": envelope.extras,
        }
        suspicions = suspected_personal_data(shown)
        if not suspicions:
            return
        kinds = sorted({each.kind for each in suspicions})
        for kind in kinds:
            metrics.personal_data.add((self._outbox, kind))
        if self._is_due(envelope.event_type):
            _log.warning(
                "personal data suspected",
                outbox=self._outbox,
                type=envelope.event_type,
                kinds=kinds,
                fields=list(dict.fromkeys(each.field for each in suspicions))[:MOST_FIELDS],
            )

    def _is_due(self, event_type: str) -> bool:
        now = time.monotonic()
        if now - self._warned.get(event_type, -WARN_EVERY_SECONDS) < WARN_EVERY_SECONDS:
            return False
        if len(self._warned) >= MOST_TYPES:
            self._warned.clear()
        self._warned[event_type] = now
        return True
