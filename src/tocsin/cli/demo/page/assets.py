"""Scripts, styles and pictures of the demo's page; most are those of the dashboard."""

from functools import cache
from pathlib import Path

from tocsin.api.dashboard.assets import Asset, assets, read_assets

_FOLDER = Path(__file__).parent / "assets"
_SHARED = ("dashboard.css", "htmx-2.0.11.min.js", "icon.svg")


@cache
def demo_assets() -> dict[str, Asset]:
    """Read every file, by name."""
    return {name: assets()[name] for name in _SHARED} | read_assets(_FOLDER)


def asset_url(name: str) -> str:
    """Return the address of a file, relative to the page."""
    return f"assets/{name}?v={demo_assets()[name].version}"
