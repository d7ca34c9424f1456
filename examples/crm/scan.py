"""The scan in Python, for producers that need more than a query."""

import os
from collections.abc import AsyncIterator

import asyncpg

from examples.crm.customers import Customer
from tocsin.domain.intent import Audience
from tocsin.periodic import Checkpoint, Intent, Yielded, periodic

CUSTOMERS_AFTER = """
select id, name, seller
from customers
where id > $1 and created_at < now() - interval '2 seconds'
order by id
"""


@periodic("* * * * *", producer="crm")
async def new_customer_in_python(checkpoint: Checkpoint) -> AsyncIterator[Yielded]:
    """Yield an intent for each customer after the checkpoint, with the checkpoint to move to."""
    connection = await asyncpg.connect(os.environ["CRM_DATABASE_URL"])
    try:
        async with connection.transaction(readonly=True):
            async for row in connection.cursor(CUSTOMERS_AFTER, checkpoint.read(int, default=0)):
                customer = Customer(**row)
                intent = Intent(
                    type="new_customer",
                    audience=Audience(users=[customer.seller]),
                    payload=customer.payload,
                    idempotency_key=customer.key,
                )
                yield intent, customer.id
    finally:
        await connection.close()
