"""How push services refuse: each by a status, and most by words of their own."""

from tocsin.sandbox.answers import Answer

_TEXT = ("content-type", "text/plain; charset=utf-8")


def refusal(code: str, status: int, words: str) -> Answer:
    """Refuse with a line of text."""
    return Answer(code, status, f"{words}\n".encode(), [_TEXT])


REFUSALS: dict[str, Answer] = {
    answer.code: answer
    for answer in (
        refusal("BAD_REQUEST", 400, "Invalid request."),
        # Apple's words for what Google answers by 403 and Mozilla by 401.
        Answer("VAPID_PK_HASH_MISMATCH", 400, b'{"reason":"VapidPkHashMismatch"}'),
        refusal("UNAUTHORIZED", 401, "The authorization header is missing or cannot be read."),
        Answer(
            "VAPID_PUBLIC_KEY_MISMATCH",
            401,
            b'{"code":401,"errno":109,"error":"Unauthorized","message":"VAPID public key mismatch"}',
        ),
        refusal("FORBIDDEN", 403, "The signature of the authorization header is not valid."),
        refusal(
            "VAPID_CREDENTIALS_MISMATCH",
            403,
            "the VAPID credentials in the authorization header do not correspond to the credentials "
            "used to create the subscriptions.",
        ),
        refusal("NOT_FOUND", 404, "There is no such subscription."),
        refusal("NOT_ACCEPTABLE", 406, "The sender is throttled."),
        refusal("GONE", 410, "push subscription has unsubscribed or expired."),
        refusal("PAYLOAD_TOO_LARGE", 413, "The body is larger than 4096 bytes."),
        refusal("TOO_MANY_REQUESTS", 429, "Too many messages."),
        refusal("INTERNAL_ERROR", 500, "Internal error."),
        refusal("BAD_GATEWAY", 502, "Bad gateway."),
        refusal("UNAVAILABLE", 503, "The service is not available."),
        Answer("REDIRECT", 307, b"", [("location", "https://127.0.0.1:1/elsewhere")]),
    )
}
"""Every refusal that can be scripted."""
