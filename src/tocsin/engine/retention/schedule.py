"""Checks the schedule of pruning."""

from collections.abc import Iterator

from tocsin.domain.faults import Fault
from tocsin.domain.retention import RetentionSettings
from tocsin.domain.timing.schedule import Schedule
from tocsin.engine.periodic.times import schedule_fault


def pruning_schedule_faults(settings: RetentionSettings) -> Iterator[Fault]:
    """List a schedule that is not in the notation of cron, or never occurs."""
    if message := schedule_fault(Schedule(settings.schedule)):
        yield Fault(field="retention.schedule", code="invalid", message=message)
