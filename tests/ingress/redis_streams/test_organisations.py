"""A stream that is bound to an organisation."""

import msgspec

from tests.ingress.redis_streams.conftest import QUICK, Galaxy
from tests.rows import add_user

BOUND = msgspec.structs.replace(QUICK, org_id="acme")


async def test_entries_of_a_bound_stream_reach_its_organisation_alone(galaxy: Galaxy) -> None:
    await add_user(galaxy.pool, "ann", org_id="acme")
    await add_user(galaxy.pool, "bob", org_id="globex")
    sent = await galaxy.append("ann", key="1")
    await galaxy.append("ann", "bob", key="2")
    await galaxy.append(key="3", payload_json="no json")
    last = await galaxy.append("ann", key="4")
    async with galaxy.consuming(BOUND):
        await galaxy.reaches(last)

    rows = await galaxy.pool.fetch("select external_id, org_id from notifications order by id")
    assert [tuple(row) for row in rows] == [(sent, "acme"), (last, "acme")]
    refused = await galaxy.pool.fetch("select idempotency_key, org_id from refused_intents order by id")
    assert [tuple(row) for row in refused] == [("2", "acme"), ("3", "acme")]
