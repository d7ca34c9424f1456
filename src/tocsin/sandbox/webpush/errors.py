"""The error responses of push services."""

from collections.abc import Mapping

from tocsin.sandbox.responses import TEXT, RefusedRequestError, Response

_CREDENTIALS_MISMATCH = (
    "the VAPID credentials in the authorization header do not correspond to the credentials "
    "used to create the subscriptions."
)
_TEXTS: Mapping[str, tuple[int, str]] = {
    "BAD_REQUEST": (400, "Invalid request."),
    "UNAUTHORIZED": (401, "The authorization header is missing or cannot be read."),
    "FORBIDDEN": (403, "The signature of the authorization header is not valid."),
    "VAPID_CREDENTIALS_MISMATCH": (403, _CREDENTIALS_MISMATCH),
    "NOT_FOUND": (404, "There is no such subscription."),
    "NOT_ACCEPTABLE": (406, "The sender is throttled."),
    "GONE": (410, "push subscription has unsubscribed or expired."),
    "PAYLOAD_TOO_LARGE": (413, "The body is larger than 4096 bytes."),
    "TOO_MANY_REQUESTS": (429, "Too many messages."),
    "INTERNAL_ERROR": (500, "Internal error."),
    "BAD_GATEWAY": (502, "Bad gateway."),
    "UNAVAILABLE": (503, "The service is not available."),
}


def refused(code: str, text: str | None = None) -> RefusedRequestError:
    """Build the refusal of a code, with a text of its own or the usual one."""
    status, usual = _TEXTS[code]
    return RefusedRequestError(Response(code, status, f"{text or usual}\n".encode(), (TEXT,)))


REFUSALS: Mapping[str, Response] = {
    **{code: refused(code).response for code in _TEXTS},
    # Apple's and Mozilla's bodies for what Google answers with VAPID_CREDENTIALS_MISMATCH.
    "VAPID_PK_HASH_MISMATCH": Response("VAPID_PK_HASH_MISMATCH", 400, b'{"reason":"VapidPkHashMismatch"}'),
    "VAPID_PUBLIC_KEY_MISMATCH": Response(
        "VAPID_PUBLIC_KEY_MISMATCH",
        401,
        b'{"code":401,"errno":109,"error":"Unauthorized","message":"VAPID public key mismatch"}',
    ),
    "REDIRECT": Response("REDIRECT", 307, b"", (("location", "https://127.0.0.1:1/elsewhere"),)),
}
"""Every refusal that can be scripted."""
