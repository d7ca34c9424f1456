"""Expo's errors: in the ticket or receipt of one message, or as the response to a whole request."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.sandbox.responses import Response

MESSAGE_ERRORS: Mapping[str, str] = {
    "DeviceNotRegistered": '"{token}" is not a registered push notification recipient',
    "MessageTooBig": 'The notification payload for "{token}" was too big: at most 4096 bytes are allowed.',
    "MessageRateExceeded": 'Messages were sent too frequently to the recipient "{token}".',
    "MismatchSenderId": 'The sender of "{token}" does not match the FCM credentials of the project.',
    "InvalidCredentials": 'The push credentials for the app of "{token}" are missing or invalid.',
    "DeveloperError": 'The message to "{token}" is not one that can be delivered.',
    "ExpoError": 'Expo failed to process the message to "{token}".',
    "ProviderError": 'The push service behind "{token}" failed.',
}
"""The texts of tickets and receipts by their code; Expo quotes the token."""


_STATUSES: Mapping[str, tuple[int, str]] = {
    "VALIDATION_ERROR": (400, '"[0].data" must be of type object'),
    "PUSH_TOO_MANY_EXPERIENCE_IDS": (
        400,
        "All push notification messages in one request must be for the same project.",
    ),
    "PUSH_TOO_MANY_NOTIFICATIONS": (400, "At most 100 push notifications can be sent with one request."),
    "PUSH_TOO_MANY_RECEIPTS": (400, "At most 1000 push receipts can be asked for with one request."),
    "UNAUTHORIZED": (401, "The bearer token is invalid."),
    "FORBIDDEN": (403, "The account may not send for this project."),
    "NOT_FOUND": (404, "There is nothing here."),
    "PAYLOAD_TOO_LARGE": (413, "The request is too large."),
    "TOO_MANY_REQUESTS": (429, "The project sends more than its share of messages."),
    "INTERNAL_SERVER_ERROR": (500, "Something went wrong."),
    "SERVICE_UNAVAILABLE": (503, "The service is unavailable. Try again later."),
}


def request_error(code: str, message: str | None = None, details: Any = None) -> Response:
    """Build the error response to a whole request."""
    status, text = _STATUSES[code]
    error = {"code": code, "message": message or text, "isTransient": status >= 500}  # noqa: PLR2004 - server errors
    if details is not None:
        error["details"] = details
    return Response(code, status, msgspec.json.encode({"errors": [error]}))


REQUEST_ERRORS: Mapping[str, Response] = {
    **{code: request_error(code) for code in _STATUSES},
    "PUSH_TOO_MANY_EXPERIENCE_IDS": request_error("PUSH_TOO_MANY_EXPERIENCE_IDS", details={}),
}
"""Every error response to a whole request, by its code."""


def message_error(code: str, token: str) -> dict[str, Any]:
    """Build the ticket or receipt of a message that failed."""
    text = MESSAGE_ERRORS[code].format(token=token)
    return {"status": "error", "message": text, "details": {"error": code, "expoPushToken": token}}
