"""Requests to an identity provider: bounded in time and in size."""

import asyncio
from datetime import timedelta

import msgspec
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.request import RequestBuilder

FETCH_FAULTS = (PyreqwestError, TimeoutError, msgspec.DecodeError, ValueError, RecursionError)
"""What fetching and decoding an answer raises; deep nesting of JSON is a RecursionError."""


class AnswerTooLargeError(ValueError):
    """An answer is larger than its limit."""


def build_client(
    timeout: timedelta, *, follow_redirects: bool = True, certificates: bytes | None = None
) -> Client:
    """Build a client; it trusts `certificates` (PEM) besides the usual ones."""
    builder = ClientBuilder().timeout(timeout).follow_redirects(follow_redirects)
    if certificates is not None:
        builder = builder.add_root_certificate_pem(certificates)
    return builder.build()


async def fetch(request: RequestBuilder, most_bytes: int, longest: timedelta) -> tuple[int, bytes]:
    """Send a request and return the status and the body; raise one of FETCH_FAULTS."""
    async with (
        asyncio.timeout(longest.total_seconds()),
        request.build_streamed() as response,
    ):
        body = bytearray()
        while chunk := await response.body_reader.read_chunk():
            body += chunk
            if len(body) > most_bytes:
                raise AnswerTooLargeError(f"it is larger than {most_bytes} bytes")
        return response.status, bytes(body)
