"""A fake payment service."""

from decimal import Decimal


class DeclinedError(Exception):
    """The card was declined."""


def charge(card: str, amount: Decimal) -> None:
    """Charge a card, or raise."""
    if card == "declined":
        raise DeclinedError(f"The card was declined for {amount}.")
