"""Encoding of responses."""

from typing import Any

import msgspec
from litestar import Response
from litestar.response.base import ASGIResponse

from tocsin.api.http.problems import MEDIA_TYPE, ProblemError

_encoder = msgspec.json.Encoder()


def reply(value: Any, status: int) -> ASGIResponse:
    """Build a response with a value as JSON."""
    return ASGIResponse(body=_encoder.encode(value), status_code=status, media_type="application/json")


def problem_reply(error: ProblemError) -> ASGIResponse:
    """Build a response with a problem, outside of a handler."""
    return ASGIResponse(
        body=_encoder.encode(error.problem),
        status_code=error.problem.status,
        media_type=MEDIA_TYPE,
        headers=error.headers,
    )


def problem_response(error: ProblemError) -> Response[bytes]:
    """Build a response with a problem."""
    return Response(
        _encoder.encode(error.problem),
        status_code=error.problem.status,
        media_type=MEDIA_TYPE,
        headers=error.headers,
    )
