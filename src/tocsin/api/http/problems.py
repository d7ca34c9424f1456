"""Everything the HTTP edge answers when it cannot do what was asked (RFC 9457)."""

from collections.abc import Mapping, Sequence

import msgspec

from tocsin.domain.faults import Fault

MEDIA_TYPE = "application/problem+json"
_NAMED_IN_DETAIL = 3


class Kind(msgspec.Struct, frozen=True):
    """A kind of problem: its stable code, its status, and what it means to the caller."""

    code: str
    status: int
    title: str
    meaning: str


MALFORMED_JSON = Kind("malformed_json", 400, "The body is not JSON", "The body cannot be read as JSON.")
BAD_REQUEST = Kind("bad_request", 400, "The request is malformed", "The request itself is broken.")
UNAUTHENTICATED = Kind(
    "unauthenticated",
    401,
    "Who is asking is not known",
    "The token or API key is missing, wrong, expired or revoked; see `WWW-Authenticate`.",
)
NOT_ALLOWED = Kind(
    "not_allowed", 403, "This is not allowed", "The role of the API key does not allow the call."
)
NOT_YOUR_USER = Kind(
    "not_your_user",
    403,
    "This is another person's",
    "The `user_id` of the body is not the one of the token.",
)
NOT_FOUND = Kind("not_found", 404, "There is no such thing", "It does not exist, or it is not yours to see.")
METHOD_NOT_ALLOWED = Kind(
    "method_not_allowed", 405, "The path has no such method", "The `Allow` header names the methods it has."
)
IDEMPOTENCY_CONFLICT = Kind(
    "idempotency_conflict",
    409,
    "The idempotency key belongs to other content",
    "The producer used the key before, with other content; `notification_id` names what it became.",
)
BODY_TOO_LARGE = Kind("body_too_large", 413, "The body is too large", "The body exceeds the configured size.")
INVALID_BODY = Kind("invalid_body", 422, "The body has faults", "`errors` names every fault of the body.")
INVALID_QUERY = Kind(
    "invalid_query", 422, "The query has faults", "`errors` names every fault of the query parameters."
)
INVALID_INTENT = Kind(
    "invalid_intent",
    422,
    "The intent has faults",
    "`errors` names every fault; the intent was recorded as refused.",
)
RATE_LIMITED = Kind(
    "rate_limited",
    429,
    "Too many registrations",
    "The person registered devices too often; `Retry-After` says when to go on.",
)
INTERNAL_ERROR = Kind(
    "internal_error", 500, "Tocsin failed", "A fault of Tocsin; the log has it under the `X-Request-ID`."
)
NOT_READY = Kind(
    "not_ready", 503, "Not ready yet", "The database does not answer or its migrations are not done."
)
UNAVAILABLE = Kind(
    "unavailable",
    503,
    "A part is out of reach",
    "The database or the key set does not answer; try again later, with the same idempotency key.",
)

WEBPUSH_UNAVAILABLE = Kind(
    "webpush_unavailable",
    404,
    "Web Push is not set up",
    "This installation sends no messages to browsers.",
)

UNKNOWN_PROVIDER = Kind(
    "unknown_provider", 404, "There is no such provider", "The detail names the providers that are in use."
)

KINDS: tuple[Kind, ...] = (
    MALFORMED_JSON,
    BAD_REQUEST,
    UNAUTHENTICATED,
    NOT_ALLOWED,
    NOT_YOUR_USER,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    IDEMPOTENCY_CONFLICT,
    BODY_TOO_LARGE,
    INVALID_BODY,
    INVALID_QUERY,
    INVALID_INTENT,
    RATE_LIMITED,
    INTERNAL_ERROR,
    NOT_READY,
    UNAVAILABLE,
    WEBPUSH_UNAVAILABLE,
    UNKNOWN_PROVIDER,
)


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an answer that is a problem."""

    code: str
    title: str
    status: int
    detail: str
    errors: Sequence[Fault] | None = None
    notification_id: str | None = None


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        errors: Sequence[Fault] | None = None,
        notification_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{kind.code}: {detail}")
        self.problem = Problem(
            code=kind.code,
            title=kind.title,
            status=kind.status,
            detail=detail,
            errors=errors,
            notification_id=notification_id,
        )
        self.headers = dict(headers or {})


def faulty(kind: Kind, faults: Sequence[Fault]) -> ProblemError:
    """Make the problem that names every fault."""
    summary = "; ".join(map(str, faults[:_NAMED_IN_DETAIL])) + (
        "; …" if len(faults) > _NAMED_IN_DETAIL else ""
    )
    return ProblemError(kind, summary, errors=faults)
