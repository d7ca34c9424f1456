from collections.abc import Callable

STORY = """
An order, while Tocsin is not running
  the shop answers 201: order 1
  orders: 1, rows in the outbox: 1

A card is declined: the view fails after it has published
  the shop answers 402: The card was declined for 49.00.
  orders: 1, rows in the outbox: 1

The relay finds what waits in the outbox
Starting Tocsin …
  mailbox of ada@example.com: 1
    We have your order 1 | Thank you for ordering A teapot for €24.90.

The order is shipped; somebody clicks twice
  the shop answers 200: order 1
  the shop answers 200: order 1
  orders: 1, rows in the outbox: 2
  mailbox of ada@example.com: 2
    We have your order 1 | Thank you for ordering A teapot for €24.90.
    Your order 1 is on its way | A teapot has left our house today.
"""


def test_mail_leaves_if_and_only_if_the_transaction_of_the_shop_commits(told: Callable[[str], str]) -> None:
    assert told("django_shop").endswith(STORY)
