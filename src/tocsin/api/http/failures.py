"""The problem for each exception that a handler raises."""

from collections.abc import Mapping
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from tocsin.api.http.access_log import request_id_of
from tocsin.api.http.problems import (
    BAD_REQUEST,
    BODY_TOO_LARGE,
    INTERNAL_ERROR,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    RETRY_SOON,
    UNAVAILABLE,
    ProblemError,
    ProblemType,
)
from tocsin.api.http.replies import problem_response
from tocsin.store.pool import AWAY

_log = structlog.stdlib.get_logger(__name__)

_BY_STATUS: Mapping[int, tuple[ProblemType, str]] = {
    404: (NOT_FOUND, "There is nothing at this path; /openapi.json lists every call."),
    405: (METHOD_NOT_ALLOWED, "This path does not support this method."),
    413: (BODY_TOO_LARGE, "The body is larger than this server accepts; send less at once."),
}
_LOWEST_SERVER_ERROR = 500
# The framework reports it as a server error; only this text identifies it.
_HUNG_UP = "client disconnected prematurely"


def answer_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Respond to what the framework refuses: unknown paths, wrong methods, large bodies."""
    if error.detail == _HUNG_UP:
        return problem_response(ProblemError(BAD_REQUEST, "The body ended before it was complete."))
    if error.status_code >= _LOWEST_SERVER_ERROR:
        return answer_failure(request, error)
    problem_type, detail = _BY_STATUS.get(error.status_code, (BAD_REQUEST, error.detail))
    return problem_response(ProblemError(problem_type, detail, headers=error.headers))


def answer_unavailable(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Respond that the database is unavailable; the caller may retry."""
    _log.warning("database unavailable", request_id=request_id_of(request.scope), error=repr(error))
    return problem_response(
        ProblemError(UNAVAILABLE, "The database does not answer; retry.", headers=RETRY_SOON)
    )


def answer_failure(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Respond to an unexpected error; its details go to the log, not to the caller."""
    request_id = request_id_of(request.scope)
    _log.error("request failed", request_id=request_id, exc_info=error)
    detail = f"An internal error occurred; the log has it under request id {request_id}."
    return problem_response(ProblemError(INTERNAL_ERROR, detail))


FAILURES: dict[int | type[Exception], Any] = {
    ProblemError: lambda _, error: problem_response(error),
    HTTPException: answer_http,
    **dict.fromkeys(AWAY, answer_unavailable),
    Exception: answer_failure,
}
