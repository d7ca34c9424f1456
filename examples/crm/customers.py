"""The CRM's own code: a customer is added, and the seller is notified."""

from typing import Any

import asyncpg
import msgspec

from tocsin.client.outbox.asyncpg import publish

ADD_CUSTOMER = "insert into customers (name, seller) values ($1, $2) returning id, name, seller"


class Customer(msgspec.Struct, frozen=True):
    """A row of the table, and its notification."""

    id: int
    name: str
    seller: str

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of the notification."""
        return {"customer_name": self.name, "customer_id": f"c-{self.id}"}

    @property
    def key(self) -> str:
        """The idempotency key: scan and event use the same, so a customer is accepted once."""
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
