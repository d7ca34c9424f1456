"""Loads the catalog that the settings name."""

from pathlib import Path

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.settings.tree import Settings


def catalog_folder(settings: Settings) -> Path:
    """Return the folder of the catalog in use."""
    return settings.catalog or shipped_catalog()


def read_catalog(settings: Settings) -> Catalog:
    """Load the catalog in use."""
    return load_catalog(catalog_folder(settings), settings.delivery.policies)
