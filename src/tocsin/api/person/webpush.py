"""The key that a page needs to subscribe its browser to Web Push."""

from typing import Any

import msgspec
from litestar import Request, get
from litestar.response.base import ASGIResponse

from tocsin.api.http.problems import WEBPUSH_UNAVAILABLE, ProblemError
from tocsin.api.http.replies import reply
from tocsin.api.operations import AnyoneMay, Operation, Tag, declared


class WebPushKey(msgspec.Struct, frozen=True):
    """The public key, as `applicationServerKey` takes it: an uncompressed P-256 point in base64url."""

    public_key: str


@get(
    "/v1/webpush/key",
    opt=declared(
        Operation(
            tag=Tag.DEVICES,
            summary="The key to subscribe a browser with; it is public",
            access=AnyoneMay(),
            answers={200: WebPushKey},
            problems=(WEBPUSH_UNAVAILABLE,),
        )
    ),
)
async def webpush_key(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Give the key."""
    public_key: str | None = request.app.state.get("webpush_key")
    if public_key is None:
        raise ProblemError(WEBPUSH_UNAVAILABLE, "Web Push is not set up: set TOCSIN_WEBPUSH__ENABLED.")
    return reply(WebPushKey(public_key))
