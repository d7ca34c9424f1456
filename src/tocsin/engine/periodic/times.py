"""The times of a schedule, by cronsim: none is skipped or repeated when daylight saving time changes."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from tocsin.domain.timing.schedule import Schedule
from tocsin.domain.timing.zones import is_known_timezone

_A_TIME = datetime(2024, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def schedule_fault(schedule: Schedule) -> str | None:
    """Return what is wrong with a schedule, or None."""
    if not is_known_timezone(schedule.timezone):
        return f"timezone {schedule.timezone!r} is not one of the IANA time zones, such as Europe/Istanbul"
    try:
        following(schedule, _A_TIME)
    except CronSimError as error:
        return (
            f"schedule {schedule.cron!r} is not in the notation of cron ({error}); "
            "write minute, hour, day, month and weekday, such as */15 * * * *"
        )
    except StopIteration:
        return f"schedule {schedule.cron!r} never occurs; check its day and month"
    return None


def following(schedule: Schedule, moment: datetime) -> datetime:
    """Return the first time of the schedule after a moment."""
    times = CronSim(schedule.cron, moment.astimezone(ZoneInfo(schedule.timezone)))
    # In the hour that is repeated in autumn, cronsim may begin with the first of the two.
    while (found := next(times).astimezone(UTC)) <= moment:
        continue
    return found


def latest(schedule: Schedule, moment: datetime) -> datetime:
    """Return the last time of the schedule that is not after a moment."""
    back = CronSim(schedule.cron, (moment + _SECOND).astimezone(ZoneInfo(schedule.timezone)), reverse=True)
    while (found := next(back).astimezone(UTC)) > moment:
        continue
    # In reverse, cronsim skips a time within the hour that is left out in spring.
    while (later := following(schedule, found)) <= moment:
        found = later
    return found
