"""From an exception to the problem the caller is told of."""

from collections.abc import Mapping
from typing import Any

import asyncpg
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
    UNAVAILABLE,
    Kind,
    ProblemError,
)
from tocsin.api.http.replies import problem_response

_log = structlog.stdlib.get_logger(__name__)

_BY_STATUS: Mapping[int, tuple[Kind, str]] = {
    404: (NOT_FOUND, "There is nothing at this path; /openapi.json lists what there is."),
    405: (METHOD_NOT_ALLOWED, "This path does not take this method."),
    413: (BODY_TOO_LARGE, "The body is larger than this server takes; send less at once."),
}
_LOWEST_SERVER_ERROR = 500
# The framework calls it a failure of the server; all it has to tell it apart is this text.
_HUNG_UP = "client disconnected prematurely"


def answer_problem(_: Request[Any, Any, Any], error: ProblemError) -> Response[bytes]:
    """Answer with the problem a handler ended with."""
    return problem_response(error)


def answer_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Answer for what the framework refuses: unknown paths, wrong methods, large bodies."""
    if error.detail == _HUNG_UP:
        return problem_response(ProblemError(BAD_REQUEST, "The body ended before it was complete."))
    if error.status_code >= _LOWEST_SERVER_ERROR:
        return answer_failure(request, error)
    kind, detail = _BY_STATUS.get(error.status_code, (BAD_REQUEST, error.detail))
    return problem_response(ProblemError(kind, detail, headers=error.headers))


def answer_unavailable(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer when the database is out of reach; the caller may try again."""
    _log.warning("the database is out of reach", request_id=request_id_of(request.scope), error=repr(error))
    return problem_response(
        ProblemError(UNAVAILABLE, "The database does not answer; try again.", headers={"Retry-After": "1"})
    )


def answer_failure(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer for a fault of our own; the details go to the log, not to the caller."""
    request_id = request_id_of(request.scope)
    _log.error("request failed", request_id=request_id, exc_info=error)
    detail = f"Something went wrong here; the log has it under request id {request_id}."
    return problem_response(ProblemError(INTERNAL_ERROR, detail))


FAILURES: dict[int | type[Exception], Any] = {
    ProblemError: answer_problem,
    HTTPException: answer_http,
    asyncpg.PostgresConnectionError: answer_unavailable,
    asyncpg.InterfaceError: answer_unavailable,
    asyncpg.CannotConnectNowError: answer_unavailable,
    asyncpg.AdminShutdownError: answer_unavailable,
    asyncpg.CrashShutdownError: answer_unavailable,
    asyncpg.TooManyConnectionsError: answer_unavailable,
    asyncpg.QueryCanceledError: answer_unavailable,
    asyncpg.InternalClientError: answer_unavailable,
    OSError: answer_unavailable,
    TimeoutError: answer_unavailable,
    Exception: answer_failure,
}
