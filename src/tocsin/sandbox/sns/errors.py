"""The errors of SNS, in the XML of its query protocol."""

import uuid
from collections.abc import Mapping
from xml.sax.saxutils import escape

from tocsin.sandbox.responses import RefusedRequestError, Response

NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"
XML = ("content-type", "text/xml")

ERRORS: Mapping[str, tuple[int, str]] = {
    "AuthorizationError": (403, "User is not authorized to perform: SNS:Publish on resource: {target}"),
    "EndpointDisabled": (400, "Endpoint is disabled"),
    "ExpiredToken": (403, "The security token included in the request is expired"),
    "InternalError": (500, "An internal error occurred while {target} was looked up"),
    "InvalidAction": (400, "Could not find operation for version 2010-03-31"),
    "InvalidClientTokenId": (403, "The security token included in the request is invalid."),
    "InvalidParameter": (400, "Invalid parameter: Message Reason: Invalid notification for {target}"),
    "KMSAccessDenied": (400, "The ciphertext references a key that cannot be used by the caller"),
    "KMSThrottling": (400, "The rate of requests to KMS is exceeded"),
    "MissingAuthenticationToken": (403, "Request is missing Authentication Token"),
    "NotFound": (404, "Endpoint does not exist"),
    "PlatformApplicationDisabled": (400, "Platform application is disabled"),
    "ServiceUnavailable": (503, "Service is unavailable. Please try again shortly."),
    "SignatureDoesNotMatch": (403, "The request signature we calculated does not match the signature given."),
    "Throttled": (429, "Rate exceeded"),
    "Throttling": (400, "Rate exceeded"),
}
"""The status and the text of each code; some texts quote what was asked for."""


def error(code: str, target: str = "", message: str | None = None) -> Response:
    """Build the error response of a code."""
    status, text = ERRORS[code]
    message = text.format(target=target) if message is None else message
    sender = "Receiver" if status >= 500 else "Sender"  # noqa: PLR2004 - server errors
    body = (
        f'<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{sender}</Type><Code>{code}</Code>'
        f"<Message>{escape(message)}</Message></Error><RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>"
    )
    return Response(code, status, body.encode(), (XML,))


def refuse(code: str, message: str) -> RefusedRequestError:
    """Build the exception that ends a request with an error."""
    return RefusedRequestError(error(code, message=message))


def result(action: str, content: str = "") -> Response:
    """Build the response of an action that was carried out; the content is XML."""
    body = (
        f'<{action}Response xmlns="{NAMESPACE}"><{action}Result>{content}</{action}Result>'
        f"<ResponseMetadata><RequestId>{uuid.uuid4()}</RequestId></ResponseMetadata></{action}Response>"
    )
    return Response("OK", 200, body.encode(), (XML,))
