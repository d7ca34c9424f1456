"""Notifications about orders. Call these within `transaction.atomic()`."""

from examples.django_shop.orders.models import Order
from tocsin.client.outbox.django import publish


def placed(order: Order) -> None:
    """Notify the customer that the order was placed."""
    publish(
        "order_placed",
        emails=[order.email],
        payload={"order_number": order.pk, "item": order.item, "amount": f"{order.amount:.2f}"},
        idempotency_key=f"order:{order.pk}:placed",
        aggregate="order",
        aggregate_id=str(order.pk),
    )


def shipped(order: Order) -> None:
    """Notify the customer that the order was shipped."""
    publish(
        "order_shipped",
        emails=[order.email],
        payload={"order_number": order.pk, "item": order.item},
        idempotency_key=f"order:{order.pk}:shipped",
        aggregate="order",
        aggregate_id=str(order.pk),
    )
