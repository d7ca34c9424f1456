"""The settings of a Django project with one app."""

import os

from django.core.management.utils import get_random_secret_key
from psycopg.conninfo import conninfo_to_dict

_database = conninfo_to_dict(os.environ["SHOP_DATABASE_URL"])

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _database.get("host"),
        "PORT": _database.get("port"),
        "USER": _database.get("user"),
        "PASSWORD": _database.get("password"),
        "NAME": _database["dbname"],
    }
}
INSTALLED_APPS = ["examples.django_shop.orders"]
ROOT_URLCONF = "examples.django_shop.urls"
ALLOWED_HOSTS = ["127.0.0.1"]
# The shop signs nothing that must outlive it.
SECRET_KEY = get_random_secret_key()
