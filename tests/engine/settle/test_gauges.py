"""Gauges are true when they are read, also while what they measure stands still."""

import gc

from tests.engine.stage import Stage, StubProvider
from tests.waiting import until
from tocsin.telemetry.instruments import Value
from tocsin.telemetry.samples import read_samples


def value(name: str, *labels: str) -> Value:
    return read_samples().get(name, {}).get(labels, 0.0)


def in_flight() -> Value:
    return value("tocsin_provider_messages_in_flight", "fcm")


def waiting() -> float:
    found = value("tocsin_settlements_waiting")
    assert isinstance(found, float | int)
    return found


async def test_what_a_provider_that_hangs_holds_and_what_the_database_does_not_take_is_seen(
    stage: Stage,
) -> None:
    provider = StubProvider()
    provider.hold()
    await stage.device("ada")
    # A worker of another test may not have been collected yet.
    gc.collect()
    before = waiting()

    def settlements() -> float:
        return waiting() - before

    async with stage.working(provider), stage.pool.acquire() as connection:
        for number in range(3):
            await stage.accept("ada", type="plain", payload={}, idempotency_key=f"k{number}")
        await until(lambda: len(provider.arrived) == 3)
        assert (in_flight(), settlements()) == (3, 0)

        async with connection.transaction():
            await connection.execute("lock table deliveries in access exclusive mode")
            provider.let_go.set()
            await until(lambda: (in_flight(), settlements()) == (0, 3))
        await until(lambda: (in_flight(), settlements()) == (0, 0))
