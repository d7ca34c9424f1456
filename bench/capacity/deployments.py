"""The chains that the page compares, from figures that are measured or that a provider documents."""

from typing import NamedTuple

from bench.capacity.model import Station
from bench.capacity.simulation import PEOPLE

# `python -m bench --only parts`, on two cores: processor seconds a message, of the run with the least other
# work; the lowest and the highest p99 at 70 % of four runs, all of them beside other work.
API, WORKER, POSTGRES = 42e-6, 130e-6, 103e-6
MEASURED_P99 = 0.139, 0.393
# RESULTS.md: the race on an idle machine.
MEASURED_RATE = 5_075.0
# RESULTS.md: the stand-in's own time beside the race, and its latency.
STAND_IN, ANSWER = 80e-6, 0.050
# engine/settle/writer.py: under load, settlements of up to so many seconds are written together.
SETTLE_EVERY = 0.050
SLOTS_A_WORKER = 300
# Documented: FCM's messages a minute of a project; messages a second of a FIFO topic and of a FIFO queue with
# batches of ten, of the high-throughput topics of an account in the largest Region together, and batches at
# once of one event source mapping.
FCM_QUOTA = 600_000 / 60
FIFO_QUOTA = 3_000.0
ACCOUNT_QUOTA = 30_000.0
MAPPING = 1_000

APPS = 73
ACCOUNTS = 25
QUEUES = 11
FUNCTIONS = 1_700


class Deployment(NamedTuple):
    """A chain with a title; `measured` are its highest rate and the ends of its 99th percentile."""

    title: str
    stations: tuple[Station, ...]
    measured: tuple[float, tuple[float, float]] | None = None


def _app(apps: int) -> tuple[Station, ...]:
    """Build the chain of apps that have a database, two API cores and four workers each."""
    return (
        Station("API", 2, API, apps, varies=True),
        Station("Postgres", 4, POSTGRES, apps, varies=True),
        Station("workers", 4, WORKER, apps, varies=True),
        Station("FCM's quota", 1, 1 / FCM_QUOTA, apps),
        Station("FCM's answers", 4 * SLOTS_A_WORKER, ANSWER, apps),
        Station("settling", 1, 0.0, apps, every=SETTLE_EVERY),
    )


def _topic(groups: int) -> tuple[Station, ...]:
    """Build the chain behind a publisher: a topic, a queue, and functions that publish one by one."""
    return (
        Station("the FIFO topic", 1, 1 / FIFO_QUOTA),
        Station("the FIFO queue", 1, 1 / FIFO_QUOTA),
        Station("functions", MAPPING, ANSWER, groups=groups),
    )


def _accounts(accounts: int) -> tuple[Station, ...]:
    """Build the same for accounts that have high-throughput topics, several queues and more functions."""
    return (
        Station("SNS in an account", 1, 1 / ACCOUNT_QUOTA, accounts),
        Station("FIFO queues", 1, 1 / FIFO_QUOTA, accounts * QUEUES),
        Station("functions", FUNCTIONS, ANSWER, accounts, groups=PEOPLE),
    )


DEPLOYMENTS = (
    Deployment(
        "one machine, two cores (1x)",
        (
            Station("two cores", 2, API + WORKER + POSTGRES + STAND_IN, varies=True),
            Station("FCM's answers", 2 * SLOTS_A_WORKER, ANSWER),
            Station("settling", 1, 0.0, every=SETTLE_EVERY),
        ),
        (MEASURED_RATE, MEASURED_P99),
    ),
    Deployment("one app at FCM's quota (2x)", _app(1)),
    Deployment(f"{APPS} apps, a schema and a database each (100x)", _app(APPS)),
    Deployment("one FIFO topic, queue and event source mapping", _topic(PEOPLE)),
    Deployment(
        f"{ACCOUNTS} accounts or Regions, {QUEUES} queues and {FUNCTIONS:,} functions each (100x)",
        _accounts(ACCOUNTS),
    ),
    Deployment("a broadcast as one message group", _topic(1)),
)
