"""Slashes that are encoded in a path belong to one of its parts, such as a user id, and do not divide it."""

from urllib.parse import unquote

from litestar.types import ASGIApp, Receive, Scope, Send

_SLASH = "\x1f"
"""Stands for such a slash while a path is routed; no id has this character."""


class EncodedSlashes:
    """Wraps an app; servers decode a path as a whole, so that `a%2Fb` would be two parts of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        raw = scope.get("raw_path", b"").partition(b"?")[0]
        if b"%2f" in raw or b"%2F" in raw or _SLASH in scope["path"]:
            scope["path"] = "/".join(map(_decoded, raw.decode("latin-1").split("/")))
        await self._app(scope, receive, send)


def _decoded(part: str) -> str:
    return unquote(part).replace(_SLASH, "\ufffd").replace("/", _SLASH)


def path_text(value: str) -> str:
    """Return a part of the path as its sender meant it."""
    return value.replace(_SLASH, "/")
