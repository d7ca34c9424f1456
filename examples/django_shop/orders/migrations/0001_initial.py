"""The table of orders."""

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes it."""

    initial = True

    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("item", models.CharField(max_length=200)),
                ("amount", models.DecimalField(decimal_places=2, max_digits=10)),
                ("shipped_at", models.DateTimeField(null=True)),
            ],
        ),
    ]
