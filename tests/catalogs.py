"""The catalog that comes with Tocsin, loaded once for all tests."""

from functools import cache

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog, shipped_catalog


@cache
def shipped() -> Catalog:
    """Return the shipped catalog; a test that replaces its types loads one of its own."""
    return load_catalog(shipped_catalog())
