"""`python -m examples.django_shop`: mail is sent if, and only if, the shop's transaction commits."""

from pathlib import Path

import asyncpg

from examples.demonstration import heading, run, say
from examples.django_shop.shop import Shop
from examples.playground import Playground, Receiver, playground

HERE = Path(__file__).parent
ADA = "ada@example.com"
COUNT = """
select (select count(*) from orders_order) as orders, (select count(*) from tocsin_outbox) as outbox
"""


async def example() -> None:
    """Start the shop first: it needs its own database, but not Tocsin."""
    async with playground(HERE / "tocsin.toml") as town:
        url = await town.create_database("shop")
        shop = Shop(town, url)
        await shop.open()
        await tell(town, shop, url)


async def tell(town: Playground, shop: Shop, url: str) -> None:
    """Order, fail to order, and ship."""
    mailbox = Receiver(f"mailbox of {ADA}", ADA, town.sandbox)

    heading("An order, while Tocsin is not running")
    await shop.post("/orders", email=ADA, item="A teapot", amount="24.90", card="good")
    await show_tables(url)

    heading("A card is declined: the view fails after it has published")
    await shop.post("/orders", email=ADA, item="A kettle", amount="49.00", card="declined")
    await show_tables(url)

    heading("The relay finds what waits in the outbox")
    await town.start_tocsin(TOCSIN_OUTBOXES__SHOP__URL=url)
    await mailbox.show(1)

    heading("The order is shipped; somebody clicks twice")
    await shop.post("/orders/1/ship")
    await shop.post("/orders/1/ship")
    await show_tables(url)
    await mailbox.show(2)


async def show_tables(url: str) -> None:
    """Print the rows that the transactions left."""
    connection = await asyncpg.connect(url)
    try:
        row = await connection.fetchrow(COUNT)
    finally:
        await connection.close()
    say(f"  orders: {row['orders']}, rows in the outbox: {row['outbox']}")


if __name__ == "__main__":
    run(example)
