"""The problems that the HTTP API answers with (RFC 9457)."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from tocsin.domain.faults import Fault
from tocsin.wire.problems import Problem

MEDIA_TYPE = "application/problem+json"
RETRY_SOON = {"Retry-After": "1"}
_LISTED_IN_DETAIL = 3


class ProblemType(msgspec.Struct, frozen=True):
    """A type of problem: its stable code, its status, and its meaning for the caller."""

    code: str
    status: int
    title: str
    meaning: str


MALFORMED_JSON = ProblemType(
    "malformed_json", 400, "The body is not JSON", "The body cannot be decoded as JSON."
)
BAD_REQUEST = ProblemType("bad_request", 400, "The request is malformed", "The request itself is malformed.")
UNAUTHENTICATED = ProblemType(
    "unauthenticated",
    401,
    "The caller is not authenticated",
    "The token or API key is missing, wrong, expired or revoked; see `WWW-Authenticate`.",
)
NOT_ALLOWED = ProblemType(
    "not_allowed", 403, "This is not allowed", "The role of the API key or token does not allow the call."
)
NO_ROLE = ProblemType(
    "no_role",
    403,
    "The token has no role here",
    "The claim `TOCSIN_AUTH__ROLE_CLAIM` of the token is missing, or none of its values is in `auth.roles`.",
)
NO_ORGANISATION = ProblemType(
    "no_organisation",
    403,
    "The caller's organisation is not known",
    "With `TOCSIN_AUTH__ORG_SCOPING`, the claim `TOCSIN_AUTH__ORG_CLAIM` of a token with roles is missing or "
    "no organisation; without it, an API key that is bound to an organisation is refused.",
)
NOT_FOR_ORGANISATIONS = ProblemType(
    "not_for_organisations",
    403,
    "This concerns all organisations",
    "The call is for those who are not bound to an organisation: what it shows or changes belongs to all.",
)
NOT_YOUR_USER = ProblemType(
    "not_your_user", 403, "This is another person's", "The `user_id` of the body is not the one of the token."
)
NOT_FOUND = ProblemType("not_found", 404, "Not found", "It does not exist, or the caller may not see it.")
METHOD_NOT_ALLOWED = ProblemType(
    "method_not_allowed", 405, "The path has no such method", "The `Allow` header lists the methods it has."
)
BODY_TIMEOUT = ProblemType(
    "body_timeout", 408, "The body took too long", "The body was not complete in the configured time."
)
IDEMPOTENCY_CONFLICT = ProblemType(
    "idempotency_conflict",
    409,
    "The idempotency key belongs to other content",
    "The producer used the key before, with other content, for the notification `notification_id`.",
)
POST_PENDING = ProblemType(
    "post_pending",
    409,
    "The post before is not answered yet",
    "A client of SignalR posted to the gateway before the answer to its last post.",
)
BODY_TOO_LARGE = ProblemType(
    "body_too_large", 413, "The body is too large", "The body exceeds the configured size."
)
TOO_MANY_DELIVERIES = ProblemType(
    "too_many_deliveries",
    413,
    "The request has too many deliveries",
    "Recipients times channels, over all intents of the request, exceed `TOCSIN_HTTP__MAX_DELIVERIES`; "
    "nothing was accepted. Split the request.",
)
INVALID_BODY = ProblemType(
    "invalid_body", 422, "The body has faults", "`errors` lists every fault of the body."
)
INVALID_QUERY = ProblemType(
    "invalid_query", 422, "The query has faults", "`errors` lists every fault of the query parameters."
)
INVALID_INTENT = ProblemType(
    "invalid_intent",
    422,
    "The intent has faults",
    "`errors` lists every fault; the intent was recorded as refused.",
)
AMBIGUOUS_ID = ProblemType(
    "ambiguous_id",
    422,
    "Several notifications have this id",
    "Several streams had an entry with this id; the detail lists the ids of their notifications.",
)
RATE_LIMITED = ProblemType(
    "rate_limited",
    429,
    "Too many registrations",
    "The person registered devices too often; retry after `Retry-After` seconds.",
)
INTERNAL_ERROR = ProblemType(
    "internal_error", 500, "Internal error", "A fault of Tocsin; the log has it under the `X-Request-ID`."
)
NOT_READY = ProblemType(
    "not_ready", 503, "Not ready yet", "The database does not answer or its migrations are not done."
)
UNAVAILABLE = ProblemType(
    "unavailable",
    503,
    "A dependency is unavailable",
    "The database or the key set does not answer; retry later, with the same idempotency key.",
)
TOO_MANY_SESSIONS = ProblemType(
    "too_many_sessions",
    503,
    "Too many sessions",
    "The person, or this process of the gateway, has as many sessions as the settings allow; retry after "
    "`Retry-After` seconds.",
)
PUSH_SERVICE_UNAVAILABLE = ProblemType(
    "push_service_unavailable",
    503,
    "The push service is unavailable",
    "Amazon SNS did not register the device; retry after `Retry-After` seconds.",
)
WEBPUSH_UNAVAILABLE = ProblemType(
    "webpush_unavailable",
    404,
    "Web Push is not configured",
    "This installation sends no messages to browsers.",
)
UNKNOWN_PROVIDER = ProblemType(
    "unknown_provider", 404, "There is no such provider", "The detail lists the providers that are in use."
)


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(
        self,
        problem_type: ProblemType,
        detail: str,
        *,
        errors: Sequence[Fault] | None = None,
        notification_id: UUID | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{problem_type.code}: {detail}")
        self.problem = Problem(
            code=problem_type.code,
            title=problem_type.title,
            status=problem_type.status,
            detail=detail,
            errors=errors,
            notification_id=notification_id,
        )
        self.headers = dict(headers or {})


def faults_problem(problem_type: ProblemType, *faults: Fault) -> ProblemError:
    """Build the problem that lists every fault."""
    summary = "; ".join(map(str, faults[:_LISTED_IN_DETAIL]))
    if len(faults) > _LISTED_IN_DETAIL:
        summary += "; …"
    return ProblemError(problem_type, summary, errors=faults)


def fault_problem(
    field: str, code: str, message: str, problem_type: ProblemType = INVALID_BODY
) -> ProblemError:
    """Build the problem with one fault."""
    return faults_problem(problem_type, Fault(field=field, code=code, message=message))
