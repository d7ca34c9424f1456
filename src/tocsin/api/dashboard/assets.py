"""Scripts, styles and pictures of the dashboard, served from memory."""

import hashlib
from functools import cache
from pathlib import Path

import msgspec
from litestar.response.base import ASGIResponse

from tocsin.api.http.problems import NOT_FOUND, ProblemError
from tocsin.api.http.requests import ApiRequest

FOLDER = Path(__file__).parent / "assets"
_CONTENT_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


class Asset(msgspec.Struct, frozen=True):
    """A file and the version in its address, so that a browser may keep it."""

    content: bytes
    content_type: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """Read every file of the dashboard, by name."""
    return read_assets(FOLDER)


def read_assets(folder: Path) -> dict[str, Asset]:
    """Read every file of a folder, by name."""
    return {file.name: _read(file) for file in folder.rglob("*") if file.suffix in _CONTENT_TYPES}


def asset_url(name: str) -> str:
    """Return the address of a file."""
    return f"/dashboard/assets/{name}?v={assets()[name].version}"


async def serve_asset(request: ApiRequest, name: str) -> ASGIResponse:
    """Return a file; with its version it never changes."""
    asset = assets().get(name)
    if asset is None:
        raise ProblemError(NOT_FOUND, "The dashboard has no such file.")
    is_versioned = request.query_params.get("v") == asset.version
    return ASGIResponse(
        body=asset.content,
        media_type=asset.content_type,
        headers={
            "cache-control": "public, max-age=31536000, immutable" if is_versioned else "no-cache",
            "x-content-type-options": "nosniff",
            "cross-origin-resource-policy": "same-origin",
            # A picture that is opened by itself runs nothing either.
            "content-security-policy": "default-src 'none'; sandbox",
        },
    )


def _read(file: Path) -> Asset:
    content = file.read_bytes()
    return Asset(content, _CONTENT_TYPES[file.suffix], hashlib.sha256(content).hexdigest()[:12])
