"""The CRM's own code: a customer is added, and the seller who looks after them hears of it."""

from typing import Any

import asyncpg
import msgspec

from tocsin.client.outbox.asyncpg import publish

ADD_CUSTOMER = "insert into customers (name, seller) values ($1, $2) returning id, name, seller"


class Customer(msgspec.Struct, frozen=True):
    """A row of the table, and what is said of it."""

    id: int
    name: str
    seller: str

    @property
    def payload(self) -> dict[str, Any]:
        """Give what the texts of the notification speak of."""
        return {"customer_name": self.name, "customer_id": f"c-{self.id}"}

    @property
    def key(self) -> str:
        """Name what happened: scan and event say the same of a customer, so it is accepted once."""
        return f"new_customer:{self.id}"


async def add_customer(connection: asyncpg.Connection, name: str, seller: str) -> Customer:
    """Add a customer and publish the event, both within the caller's transaction."""
    customer = Customer(**await connection.fetchrow(ADD_CUSTOMER, name, seller))
    await publish(
        connection,
        "new_customer",
        users=[customer.seller],
        payload=customer.payload,
        idempotency_key=customer.key,
    )
    return customer
