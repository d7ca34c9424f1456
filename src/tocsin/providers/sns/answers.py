"""What the answers of SNS to Publish mean, as a table."""

import re
from datetime import timedelta
from typing import Any

from tocsin.providers import answers
from tocsin.providers.answers import (
    ALARM_REST,
    NEEDS_OPERATOR,
    UNLISTED,
    Answer,
    Failure,
    Rule,
    any_code,
    rows,
)

RATE_REST = timedelta(seconds=5)
_RATE: dict[str, Any] = {"outcome": "defer", "pauses": True, "rest": RATE_REST, "least_rest": timedelta()}

RULES = (
    Rule(status=400, code="EndpointDisabled", outcome="gone"),
    Rule(status=400, code="InvalidParameter", about="endpoint", outcome="gone"),
    Rule(status=400, code="InvalidParameter", about="payload", outcome="rejected"),
    *rows(400, "InvalidParameterValue", "ParameterValueInvalid", "ValidationError", outcome="rejected"),
    Rule(status=404, code="NotFound", outcome="gone"),
    # About the credentials of one platform application: endpoints of the other go on.
    Rule(status=400, code="PlatformApplicationDisabled", outcome="defer", alarm=True, rest=ALARM_REST),
    *rows(400, "Throttling", "ThrottlingException", "KMSThrottling", **_RATE),
    *rows(429, "Throttled", **_RATE),
    *rows(403, "AuthorizationError", "AccessDenied", "InvalidClientTokenId", **NEEDS_OPERATOR),
    *rows(403, "SignatureDoesNotMatch", "IncompleteSignature", "ExpiredTokenException", **NEEDS_OPERATOR),
    *rows(403, "MissingAuthenticationToken", "OptInRequired", "InvalidSecurity", **NEEDS_OPERATOR),
    *rows(400, "KMSAccessDenied", "KMSDisabled", "KMSInvalidState", **NEEDS_OPERATOR),
    *rows(400, "KMSNotFound", "KMSOptInRequired", "RequestExpired", **NEEDS_OPERATOR),
    Rule(status=404, code="InvalidAction", **NEEDS_OPERATOR),
    *rows(500, "InternalError", "InternalFailure", outcome="retry"),
    Rule(status=503, code="ServiceUnavailable", outcome="retry"),
)
"""A code is known by its status whatever status it came with."""

# For Apple it is the token of a device that expired.
_RENAMED = {"ExpiredToken": "ExpiredTokenException"}
_STATUS_OF = {rule.code: rule.status for rule in RULES if isinstance(rule.status, int)}
_ALL_RULES = (
    *RULES,
    Rule(status=429, **_RATE),
    # Without one of the codes of SNS a proxy answered, and neither endpoint nor message is at fault.
    *any_code(RULES, "AuthorizationError", "InvalidAction"),
    Rule(status=401, **NEEDS_OPERATOR),
    # A code that is not in the table is no word about the message: it is tried again.
    Rule(status=400, outcome="retry"),
    *UNLISTED,
)

_ARN = re.compile(r"arn:aws[\w-]*:[^\s\"']*")
_LONGEST_DETAIL = 300
_CODE = re.compile(r"[A-Za-z][A-Za-z.]{0,63}")


def classify(status: int, code: str, message: str, retry_after: timedelta | None) -> Failure:
    """Return the outcome of an error; the ARNs that its text quotes are left out."""
    known = _RENAMED.get(code, code) if _CODE.fullmatch(code) else f"HTTP_{status}"
    about = None
    if known == "InvalidParameter":
        about = "endpoint" if "TargetArn" in message else "payload"
    answer = Answer(
        status=_STATUS_OF.get(known, status),
        code=known,
        about=about,
        detail=_ARN.sub("[arn]", message)[:_LONGEST_DETAIL],
        retry_after=retry_after,
    )
    return answers.classify(answer, _ALL_RULES)
