"""The key that a page needs to subscribe its browser to Web Push."""

import msgspec

from tocsin.api.http.problems import WEBPUSH_UNAVAILABLE, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PUBLIC, Routes, Tag

routes = Routes(Tag.DEVICES)


class WebPushKey(msgspec.Struct, frozen=True):
    """The public key, as `applicationServerKey` takes it: an uncompressed P-256 point in base64url."""

    public_key: str


@routes(
    "GET /v1/webpush/key",
    "The public key to subscribe a browser with",
    PUBLIC,
    problems=(WEBPUSH_UNAVAILABLE,),
)
async def webpush_key(request: ApiRequest) -> WebPushKey:
    """Return the key."""
    if request.services.webpush_keys is None:
        raise ProblemError(WEBPUSH_UNAVAILABLE, "Web Push is not configured: set TOCSIN_WEBPUSH__ENABLED.")
    return WebPushKey(request.services.webpush_keys.public_key)
