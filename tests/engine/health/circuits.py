"""Circuit breakers that open quickly, and what waits for them."""

from datetime import timedelta
from hashlib import sha256
from typing import Any

from tests.engine.stage import Stage, StubProvider
from tests.waiting import found
from tocsin.domain.delivery.outcome import Retry
from tocsin.engine.health.settings import HealthSettings

TOUCHY = HealthSettings(window_seconds=60, least_attempts=5, failures_in_a_row=1_000, rest_seconds=30)
HALF_A_MINUTE = timedelta(seconds=31)


def long_host() -> str:
    """Return a host that is too long for an index, even compressed."""
    return ".".join(sha256(b"%d" % number).hexdigest() for number in range(60))


async def circuits(stage: Stage) -> dict[str, dict[str, Any]]:
    return {row["name"]: dict(row) for row in await stage.pool.fetch("select * from circuits")}


async def in_state(stage: Stage, name: str, state: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        row = (await circuits(stage)).get(name)
        return row if row and row["state"] == state else None

    return await found(look)


async def waiting(stage: Stage, lane: str) -> dict[str, str]:
    """Return what is due in a lane and never tried, each with the transaction that wrote it last."""
    rows = await stage.pool.fetch(
        "select id, xmin::text from deliveries"
        " where lane = $1 and state = 'pending' and attempts = 0 and lease is null and held_by is null",
        lane,
    )
    return {str(row["id"]): row["xmin"] for row in rows}


async def spent(stage: Stage, attempts: int) -> bool:
    """Tell whether the only delivery has so many attempts behind it."""
    return bool(await stage.pool.fetchval("select attempts = $1 from deliveries", attempts))


async def released(stage: Stage) -> bool:
    """Return whether nothing is under lease."""
    return not await stage.pool.fetchval("select exists (select from deliveries where lease is not null)")


async def broken(stage: Stage, provider: StubProvider, people: int = 5) -> None:
    """Let a provider fail often enough for its circuit to open."""
    for number in range(people):
        await stage.device(f"victim{number}", provider=provider.name)
        provider.script(f"victim{number}", Retry("UNAVAILABLE", after=timedelta(hours=1)))
        await stage.accept(f"victim{number}", idempotency_key=f"victim{number}")
