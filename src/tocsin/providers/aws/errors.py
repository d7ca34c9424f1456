"""What can go wrong with a call of AWS, told apart by whether AWS may have carried it out."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from aiohttp import ClientConnectorError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)
from botocore.exceptions import ConnectionError as AwsConnectionError
from botocore.parsers import ResponseParserError

from tocsin.domain.delivery.retry_after import read_retry_after

AWS_FAULTS = (ClientError, BotoCoreError, ResponseParserError, TimeoutError, OSError)
"""What a call of AWS raises when AWS, the network or the credentials are at fault."""

NO_ANSWER = (AwsConnectionError, HTTPClientError, ResponseParserError, TimeoutError, OSError)
"""Of these, what the network or the other side is to blame for; others are about credentials and settings."""


class AwsError(NamedTuple):
    """An error that AWS answered with."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str]

    def retry_after(self, now: datetime) -> timedelta | None:
        """Return how long AWS asks to wait."""
        return read_retry_after(self.headers.get("retry-after"), now)


def answered(error: ClientError) -> AwsError:
    """Return the error in an answer."""
    response: Mapping[str, Any] = error.response
    metadata = response.get("ResponseMetadata", {})
    found = response.get("Error", {})
    return AwsError(
        status=int(metadata.get("HTTPStatusCode", 0)),
        code=str(found.get("Code", "")),
        message=str(found.get("Message", "")),
        headers=metadata.get("HTTPHeaders", {}),
    )


def are_credentials_expired(error: BaseException) -> bool:
    """Return whether credentials were renewed as expired ones: the clock, or who renews them, is wrong.

    The client of AWS has no exception of its own for it.
    """
    return type(error) is RuntimeError and "credentials are still expired" in str(error)


def is_time_out(error: BaseException) -> bool:
    """Return whether the time was over."""
    return isinstance(error, TimeoutError | ReadTimeoutError | ConnectTimeoutError)


def may_have_arrived(error: BaseException) -> bool:
    """Return whether AWS may have got the request, though nobody knows its answer."""
    match error:
        case ConnectTimeoutError() | SSLError():
            return False
        case EndpointConnectionError():
            # The client also raises it for a connection that broke while it was in use.
            return not isinstance(error.kwargs.get("error"), ClientConnectorError)
        case _:
            return isinstance(error, HTTPClientError | ResponseParserError | TimeoutError | OSError)
