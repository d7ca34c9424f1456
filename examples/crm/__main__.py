"""`python -m examples.crm`: a new customer, found by scan, by event and by both."""

import asyncio
from contextlib import suppress
from pathlib import Path

import asyncpg

from examples.crm.customers import add_customer
from examples.crm.operations import Operator
from examples.demonstration import heading, run, say
from examples.playground import Receiver, playground
from tocsin.api.auth.roles import Role

HERE = Path(__file__).parent
IMPORT = """
insert into customers (name, seller, created_at)
values ('Grace Hopper', 'ada', now() - interval '1 day')
"""


class RefusedError(Exception):
    """Something goes wrong after the customer was added."""


async def example() -> None:
    """Start everything, then show each method."""
    async with playground(HERE / "tocsin.toml") as town:
        url = await town.create_database("crm")
        crm = await asyncpg.connect(url)
        try:
            await crm.execute((HERE / "schema.sql").read_text())
            await town.start_tocsin(
                TOCSIN_OUTBOXES__CRM__URL=url, TOCSIN_PERIODIC__DATABASES__CRM=url, CRM_DATABASE_URL=url
            )
            phone = await town.phone(await town.client("crm"), "ada", locale="en", provider="fcm")
            operator = Operator(town.base_url, await town.key("operations", Role.OPERATOR))
            await tell(crm, phone, operator)
        finally:
            await crm.close()


async def tell(crm: asyncpg.Connection, phone: Receiver, operator: Operator) -> None:
    """Add customers and check the seller's phone."""
    heading("By scan: an import that knows nothing of Tocsin")
    await crm.execute(IMPORT)
    await operator.run_scans(up_to=1)
    await phone.show(1)

    heading("By event: the application adds a customer")
    async with crm.transaction():
        added = await add_customer(crm, "Katherine Johnson", "ada")
    await phone.show(2)

    heading("By event: the application changes its mind")
    with suppress(RefusedError):
        async with crm.transaction():
            await add_customer(crm, "Nobody", "ada")
            raise RefusedError
    say("  The transaction rolled back: no customer, no notification.")

    heading("By both: the scans find the customer of the event")
    await asyncio.sleep(2)
    await operator.run_scans(up_to=added.id)
    await phone.show(2)


if __name__ == "__main__":
    run(example)
