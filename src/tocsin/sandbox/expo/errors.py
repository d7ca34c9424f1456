"""Expo's errors: in the ticket or receipt of one message, or as the answer to a whole request."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tocsin.sandbox.answers import Answer

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
"""What tickets and receipts say, by the code they carry; Expo quotes the token."""


def _error(code: str, status: int, message: str, details: Any = None) -> Answer:
    error = {"code": code, "message": message, "isTransient": status >= 500}  # noqa: PLR2004 - the server's own faults
    if details is not None:
        error["details"] = details
    return Answer(code, status, msgspec.json.encode({"errors": [error]}))


def validation_error(message: str) -> Answer:
    """Refuse a request with something in it that Expo cannot read."""
    return _error("VALIDATION_ERROR", 400, message)


def too_many_projects(tokens: Mapping[str, Sequence[str]]) -> Answer:
    """Refuse messages of several projects in one request, and name the tokens of each."""
    message = "All push notification messages in one request must be for the same project."
    return _error("PUSH_TOO_MANY_EXPERIENCE_IDS", 400, message, tokens)


UNAUTHORIZED = _error("UNAUTHORIZED", 401, "The bearer token is invalid.")
TOO_MANY_REQUESTS = _error("TOO_MANY_REQUESTS", 429, "The project sends more than its share of messages.")
SERVICE_UNAVAILABLE = _error("SERVICE_UNAVAILABLE", 503, "The service is unavailable. Try again later.")
TOO_MANY_NOTIFICATIONS = _error(
    "PUSH_TOO_MANY_NOTIFICATIONS", 400, "At most 100 push notifications can be sent with one request."
)
TOO_MANY_RECEIPTS = _error(
    "PUSH_TOO_MANY_RECEIPTS", 400, "At most 1000 push receipts can be asked for with one request."
)

REQUEST_ERRORS: Mapping[str, Answer] = {
    answer.code: answer
    for answer in (
        validation_error('"[0].data" must be of type object'),
        too_many_projects({}),
        TOO_MANY_NOTIFICATIONS,
        TOO_MANY_RECEIPTS,
        UNAUTHORIZED,
        _error("FORBIDDEN", 403, "The account may not send for this project."),
        _error("NOT_FOUND", 404, "There is nothing here."),
        _error("PAYLOAD_TOO_LARGE", 413, "The request is too large."),
        TOO_MANY_REQUESTS,
        _error("INTERNAL_SERVER_ERROR", 500, "Something went wrong."),
        SERVICE_UNAVAILABLE,
    )
}
"""Every error that a whole request can be refused with, by its code."""


def message_error(code: str, token: str) -> dict[str, Any]:
    """Write the ticket or receipt of a message that failed."""
    text = MESSAGE_ERRORS[code].format(token=token)
    return {"status": "error", "message": text, "details": {"error": code, "expoPushToken": token}}
