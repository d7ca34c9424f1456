"""What the race and the lines about providers must show."""

from collections.abc import Iterator, Sequence

from bench.contract import Goal, Reading
from bench.race import Standing

SUBJECT = "tocsin"
TIMES_THE_RATE = {"bullmq": Goal(bound=2.0, least=True), "celery": Goal(bound=20.0, least=True)}
CPU_MICROS = Goal(bound=250.0, least=False)

APNS_TIMES_FCM = Goal(bound=1.2, least=False)
EXPO_CPU_MICROS = Goal(bound=40.0, least=False)
RATE_BESIDE_AN_OUTAGE = Goal(bound=0.9, least=True)
NONE = Goal(bound=0.0, least=False)
MOST_A_SECOND = Goal(bound=600.0, least=False)
AVERAGE_A_SECOND = Goal(bound=570.0, least=True)


def race_readings(standings: Sequence[Standing]) -> Iterator[Reading]:
    """Hold Tocsin's standing against each rival's, and against its goals."""
    subject = next((each for each in standings if each.name == SUBJECT), None)
    if subject is None:
        return
    for rival in standings:
        if rival is not subject:
            yield Reading(
                name=f"rate against {rival.title}",
                value=subject.rate.median / rival.rate.median,
                unit="times",
                goal=TIMES_THE_RATE.get(rival.name),
            )
    yield Reading(
        name="CPU a message, Postgres included",
        value=subject.cpu_micros.median,
        unit="µs",
        goal=CPU_MICROS,
    )
