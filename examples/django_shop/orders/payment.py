"""A stand-in for whoever takes the money."""

from decimal import Decimal


class DeclinedError(Exception):
    """The bank said no."""


def charge(card: str, amount: Decimal) -> None:
    """Charge a card, or raise."""
    if card == "declined":
        raise DeclinedError(f"The card was declined for {amount}.")
