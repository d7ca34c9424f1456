"""The page for each exception that a handler of the dashboard raises."""

from typing import Any

import structlog
from litestar import Response
from litestar.exceptions import HTTPException

from tocsin.api.dashboard.access import SignedOutError, session_of
from tocsin.api.dashboard.rendering import render
from tocsin.api.dashboard.responses import headers_for
from tocsin.api.http.access_log import request_id_of
from tocsin.api.http.event_streams import EVENT_STREAM
from tocsin.api.http.problems import INTERNAL_ERROR, UNAVAILABLE, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.store.pool import AWAY
from tocsin.wire.problems import Problem

_LOWEST_SERVER_ERROR = 500
_log = structlog.stdlib.get_logger(__name__)


def answer_problem(request: ApiRequest, error: ProblemError) -> Response[bytes]:
    """Show a problem as a page, or as a part of one for HTMX."""
    return _shown(request, error.problem)


def answer_signed_out(request: ApiRequest, error: SignedOutError) -> Response[bytes]:
    """Lead to the form to sign in; a stream only ends, and its page finds out by itself."""
    if EVENT_STREAM in request.headers.get("accept", ""):
        return Response(b"", status_code=401, headers=headers_for(request))
    is_htmx = "hx-request" in request.headers
    header = {"hx-redirect" if is_htmx else "location": error.location}
    return Response(b"", status_code=401 if is_htmx else 303, headers={**headers_for(request), **header})


def answer_http(request: ApiRequest, error: HTTPException) -> Response[bytes]:
    """Show what the framework refuses, such as large bodies."""
    if error.status_code >= _LOWEST_SERVER_ERROR:
        return answer_failure(request, error)
    problem = Problem(
        code="bad_request", title="The request is malformed", status=error.status_code, detail=""
    )
    return _shown(request, problem)


def answer_unavailable(request: ApiRequest, error: Exception) -> Response[bytes]:
    """Show that the database is unavailable."""
    _log.warning("database unavailable", request_id=request_id_of(request.scope), error=repr(error))
    return _shown(request, ProblemError(UNAVAILABLE, "The database does not answer; retry.").problem)


def answer_failure(request: ApiRequest, error: Exception) -> Response[bytes]:
    """Show an unexpected error; its details go to the log."""
    request_id = request_id_of(request.scope)
    _log.error("request failed", request_id=request_id, exc_info=error)
    detail = f"The log has the cause under request id {request_id}."
    return _shown(request, ProblemError(INTERNAL_ERROR, detail).problem)


def _shown(request: ApiRequest, problem: Problem) -> Response[bytes]:
    text = render(request, session_of(request), "problem.html", {"problem": problem, "notice": None})
    headers = headers_for(request)
    return Response(text.encode(), status_code=problem.status, media_type="text/html", headers=headers)


FAILURES: dict[int | type[Exception], Any] = {
    ProblemError: answer_problem,
    SignedOutError: answer_signed_out,
    HTTPException: answer_http,
    **dict.fromkeys(AWAY, answer_unavailable),
    Exception: answer_failure,
}
