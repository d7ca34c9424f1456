"""The models of the shop."""

from django.db import models


class Order(models.Model):
    """An order of a customer."""

    email = models.EmailField()
    item = models.CharField(max_length=200)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    shipped_at = models.DateTimeField(null=True)

    class Meta:
        """Sets the app label, because the app is in a folder of examples."""

        app_label = "orders"

    def __str__(self) -> str:
        return f"Order {self.pk}"
