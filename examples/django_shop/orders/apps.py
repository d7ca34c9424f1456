"""The Django app configuration."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    """The only app of the shop."""

    name = "examples.django_shop.orders"
    default_auto_field = "django.db.models.BigAutoField"
