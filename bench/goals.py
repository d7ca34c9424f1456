"""What the race must show."""

from collections.abc import Iterator, Sequence

from bench.contract import Goal, Reading
from bench.race import Standing

SUBJECT = "tocsin"
TIMES_THE_RATE = {"bullmq": 2.0, "celery": 20.0}
CPU_MICROS = 250.0


def race_readings(standings: Sequence[Standing]) -> Iterator[Reading]:
    """Hold Tocsin's standing against its goals, where the rivals that they name took part."""
    by_name = {each.name: each for each in standings}
    subject = by_name.get(SUBJECT)
    if subject is None:
        return
    for rival, times in TIMES_THE_RATE.items():
        if rival in by_name:
            yield Reading(
                name=f"rate against {by_name[rival].title}",
                value=subject.rate.median / by_name[rival].rate.median,
                unit="times",
                goal=Goal(bound=times, least=True),
            )
    yield Reading(
        name="processor time a message, Postgres included",
        value=subject.cpu_micros.median,
        unit="µs",
        goal=Goal(bound=CPU_MICROS, least=False),
    )
