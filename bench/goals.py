"""What the race and the lines must show."""

from collections.abc import Iterator, Sequence

from bench.contract import Goal, Reading
from bench.race.standing import Standing

SUBJECT = "tocsin"
TIMES_BULLMQ_PER_CORE = Goal(bound=2.5, least=True)
TIMES_BEST_CELERY = Goal(bound=25.0, least=True)
CPU_MICROS = Goal(bound=130.0, least=False)

APNS_TIMES_FCM = Goal(bound=1.2, least=False)
EXPO_CPU_MICROS = Goal(bound=40.0, least=False)
WEBPUSH_CPU_MICROS = Goal(bound=180.0, least=False)
EMAIL_CPU_MICROS = Goal(bound=200.0, least=False)
PRODUCER_CPU_MICROS = Goal(bound=3.0, least=False)
API_CPU_MICROS = Goal(bound=30.0, least=False)
WORKERS_CPU_MICROS = Goal(bound=45.0, least=False)
POSTGRES_CPU_MICROS = Goal(bound=50.0, least=False)
RATE_BESIDE_AN_OUTAGE = Goal(bound=0.9, least=True)
IDLE_MEDIAN_MS = Goal(bound=4.0, least=False)
IDLE_P99_MS = Goal(bound=15.0, least=False)
BUSY_P99_MS = Goal(bound=250.0, least=False)
STARTUP_MS = Goal(bound=250.0, least=False)
BESIDE_BROADCAST_P99_MS = Goal(bound=1_000.0, least=False)
PROCESS_MEGABYTES = Goal(bound=300.0, least=False)
NONE = Goal(bound=0.0, least=False)
MOST_A_SECOND = Goal(bound=600.0, least=False)
AVERAGE_A_SECOND = Goal(bound=570.0, least=True)


def race_readings(standings: Sequence[Standing]) -> Iterator[Reading]:
    """Hold Tocsin's standing against each rival's, and against its goals."""
    subject = next((each for each in standings if each.name == SUBJECT), None)
    if subject is None:
        return
    rivals = [each for each in standings if each is not subject]
    for rival in rivals:
        yield Reading(
            name=f"rate against {rival.name}",
            value=subject.rate.median / rival.rate.median,
            unit="times",
        )
        yield Reading(
            name=f"rate per core against {rival.name}",
            value=subject.rate_per_core / rival.rate_per_core,
            unit="times",
            goal=TIMES_BULLMQ_PER_CORE if rival.name.startswith("bullmq") else None,
        )
    if celery := [each.rate.median for each in rivals if each.name.startswith("celery")]:
        yield Reading(
            name="rate against Celery's best",
            value=subject.rate.median / max(celery),
            unit="times",
            goal=TIMES_BEST_CELERY,
        )
    yield Reading(
        name="CPU a message, Postgres included",
        value=subject.cpu_micros.median,
        unit="µs",
        goal=CPU_MICROS,
    )
