"""What Expo's answers mean, as two tables: one for tickets and receipts, one for whole requests."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import msgspec

from tocsin.domain.delivery.outcome import Retry
from tocsin.providers.answers import (
    ALARM_REST,
    NEEDS_OPERATOR,
    UNLISTED,
    Answer,
    Failure,
    Rule,
    any_code,
    classify,
    decode,
    first_match,
    outcome_of,
    rows,
)

RATE_REST = timedelta(seconds=5)

MESSAGE_RULES = (
    Rule(code="DeviceNotRegistered", outcome="gone"),
    *rows(None, "MessageTooBig", "DeveloperError", outcome="rejected"),
    Rule(code="MessageRateExceeded", outcome="retry", speaks_against="target"),
    # About one project and one platform: messages of others go on.
    *rows(None, "MismatchSenderId", "InvalidCredentials", outcome="defer", alarm=True, rest=ALARM_REST),
    *rows(None, "ExpoError", "ProviderError", outcome="retry"),
)
"""The codes of tickets and receipts, each about one message."""

REQUEST_RULES = (
    *rows(400, "PUSH_TOO_MANY_EXPERIENCE_IDS", "PUSH_TOO_MANY_NOTIFICATIONS", outcome="split"),
    Rule(status=400, code="PUSH_TOO_MANY_RECEIPTS", outcome="split"),
    # One message that Expo cannot read has the whole request refused: the others must not suffer.
    Rule(status=400, code="VALIDATION_ERROR", outcome="split"),
    Rule(status=413, code="PAYLOAD_TOO_LARGE", outcome="split"),
    Rule(status=401, code="UNAUTHORIZED", **NEEDS_OPERATOR),
    Rule(status=403, code="FORBIDDEN", **NEEDS_OPERATOR),
    # The address is wrong: a setting or a proxy, not a dead device.
    Rule(status=404, code="NOT_FOUND", **NEEDS_OPERATOR),
    *rows(429, "TOO_MANY_REQUESTS", outcome="defer", pauses=True, rest=RATE_REST, least_rest=timedelta()),
    Rule(status=500, code="INTERNAL_SERVER_ERROR", outcome="retry"),
    Rule(status=503, code="SERVICE_UNAVAILABLE", outcome="retry"),
)
"""The codes of an answer to a whole request; a code is known by its status whatever status it came with."""

RULES = MESSAGE_RULES + REQUEST_RULES

_ALL_MESSAGE_RULES = (*MESSAGE_RULES, Rule(outcome="retry", speaks_against="target"))
_ALL_REQUEST_RULES = (
    *REQUEST_RULES,
    *any_code(REQUEST_RULES, "VALIDATION_ERROR", "UNAUTHORIZED", "FORBIDDEN", "NOT_FOUND"),
    *any_code(REQUEST_RULES, "PAYLOAD_TOO_LARGE", "TOO_MANY_REQUESTS"),
    *UNLISTED,
)
_STATUS_OF = {rule.code: rule.status for rule in REQUEST_RULES if isinstance(rule.status, int)}
_TOKEN = re.compile(
    r"Expo(?:nent)?PushToken\[[^\]]*\]?|\b[a-z\d]{8}(?:-[a-z\d]{4}){3}-[a-z\d]{12}\b", re.IGNORECASE
)
_HIDDEN = "[token]"


class Split(msgspec.Struct, frozen=True):
    """Nothing was taken: send again in parts. `projects` has the tokens of each, if they are the cause."""

    code: str
    detail: str = ""
    projects: Mapping[str, frozenset[str]] = {}


class MessageStatus(msgspec.Struct, frozen=True):
    """A ticket or a receipt: what Expo answers about one message.

    Only `status` and `id` are checked for their type: a message that was taken must not be
    sent again because something beside it looks odd.
    """

    status: str = ""
    id: str | None = None
    message: Any = ""
    details: Any = None


class _Error(msgspec.Struct, frozen=True):
    code: Any = ""
    message: Any = ""
    details: Any = None


class _Refusal(msgspec.Struct, frozen=True):
    errors: list[_Error] = []


def classify_message(given: MessageStatus, secrets: Iterable[str]) -> Failure:
    """Return the outcome of a ticket or receipt other than `ok`, without the secrets it may quote."""
    details = given.details if isinstance(given.details, dict) else {}
    code = _redacted(_text(details.get("error")), secrets) or "unknown_error"
    answer = Answer(status=HTTPStatus.OK, code=code, detail=_redacted(_text(given.message), secrets))
    return classify(answer, _ALL_MESSAGE_RULES)


def classify_request(
    status: int, body: bytes, retry_after: timedelta | None, secrets: Iterable[str]
) -> Split | Failure:
    """Return the outcome of an answer without tickets or receipts, without the secrets it may quote."""
    error = _read(body)
    code, detail = _redacted(_text(error.code), secrets), _redacted(_text(error.message), secrets)
    if status == HTTPStatus.OK and code not in _STATUS_OF:
        detail = detail or "Expo answered 200 with something else than its JSON"
        return Retry("unreadable_answer", detail, uncertain=True)
    answer = Answer(
        status=_STATUS_OF.get(code, status),
        code=code or f"HTTP_{status}",
        detail=detail,
        retry_after=retry_after or None,
    )
    rule = first_match(answer, _ALL_REQUEST_RULES)
    if rule.outcome == "split":
        return Split(answer.code, detail, _projects(error.details))
    return outcome_of(rule, answer)


def _read(body: bytes) -> _Error:
    refusal = decode(body, _Refusal)
    if refusal is None:
        return _Error(message="the answer was not the JSON that Expo gives")
    return refusal.errors[0] if refusal.errors else _Error()


def _projects(details: Any) -> dict[str, frozenset[str]]:
    if not isinstance(details, dict):
        return {}
    return {
        project: frozenset(token for token in tokens if isinstance(token, str))
        for project, tokens in details.items()
        if isinstance(tokens, list)
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _redacted(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret and secret in text:
            text = text.replace(secret, _HIDDEN)
    return _TOKEN.sub(_HIDDEN, text)
