"""What Expo's answers mean, as a table."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Literal, assert_never

import msgspec

from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry

RATE_REST = timedelta(seconds=5)
ALARM_REST = timedelta(minutes=5)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row: an error code of Expo, and what follows from it.

    `about` tells whether a ticket or a receipt of one message carries the code, or the answer to a
    whole request. What is `split` was not taken and is asked for again in parts, within the same attempt.
    """

    about: Literal["message", "request"]
    code: str
    status: int = 200
    outcome: Literal["retry", "defer", "rejected", "gone", "split"]
    pauses: bool = False
    alarm: bool = False
    rest: timedelta = timedelta()
    speaks_against: Literal["provider", "target"] = "provider"


_CALLS_FOR_HELP: dict[str, Any] = {"outcome": "defer", "pauses": True, "alarm": True, "rest": ALARM_REST}

# A message names one project, and a key of one platform: others are none the worse.
_OF_ONE_PROJECT: dict[str, Any] = _CALLS_FOR_HELP | {"pauses": False}

RULES = (
    Rule(about="message", code="DeviceNotRegistered", outcome="gone"),
    Rule(about="message", code="MessageTooBig", outcome="rejected"),
    Rule(about="message", code="DeveloperError", outcome="rejected"),
    Rule(about="message", code="MessageRateExceeded", outcome="retry", speaks_against="target"),
    Rule(about="message", code="MismatchSenderId", **_OF_ONE_PROJECT),
    Rule(about="message", code="InvalidCredentials", **_OF_ONE_PROJECT),
    Rule(about="message", code="ExpoError", outcome="retry"),
    Rule(about="message", code="ProviderError", outcome="retry"),
    Rule(about="request", status=400, code="PUSH_TOO_MANY_EXPERIENCE_IDS", outcome="split"),
    Rule(about="request", status=400, code="PUSH_TOO_MANY_NOTIFICATIONS", outcome="split"),
    Rule(about="request", status=400, code="PUSH_TOO_MANY_RECEIPTS", outcome="split"),
    # One message that Expo cannot read has the whole request refused: the others must not suffer.
    Rule(about="request", status=400, code="VALIDATION_ERROR", outcome="split"),
    Rule(about="request", status=413, code="PAYLOAD_TOO_LARGE", outcome="split"),
    Rule(about="request", status=401, code="UNAUTHORIZED", **_CALLS_FOR_HELP),
    Rule(about="request", status=403, code="FORBIDDEN", **_CALLS_FOR_HELP),
    # The address is wrong: a setting or a proxy, not a dead device.
    Rule(about="request", status=404, code="NOT_FOUND", **_CALLS_FOR_HELP),
    Rule(about="request", status=429, code="TOO_MANY_REQUESTS", outcome="defer", pauses=True, rest=RATE_REST),
    Rule(about="request", status=500, code="INTERNAL_SERVER_ERROR", outcome="retry"),
    Rule(about="request", status=503, code="SERVICE_UNAVAILABLE", outcome="retry"),
)

_OF_MESSAGES = {rule.code: rule for rule in RULES if rule.about == "message"}
_OF_REQUESTS = {rule.code: rule for rule in RULES if rule.about == "request"}
# Read so when a status comes with a code not listed or with none: then a gateway or a proxy spoke.
_USUAL_CODES = {
    400: "VALIDATION_ERROR",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    413: "PAYLOAD_TOO_LARGE",
    429: "TOO_MANY_REQUESTS",
}
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY}
_TOKEN = re.compile(
    r"Expo(?:nent)?PushToken\[[^\]]*\]?|\b[a-z\d]{8}(?:-[a-z\d]{4}){3}-[a-z\d]{12}\b", re.IGNORECASE
)
_HIDDEN = "[token]"


class Split(msgspec.Struct, frozen=True):
    """Nothing was taken; ask again in parts. `projects` names the tokens of each, if they are the cause."""

    code: str
    detail: str = ""
    projects: Mapping[str, frozenset[str]] = {}


class Word(msgspec.Struct, frozen=True):
    """A ticket or a receipt: what Expo says of one message.

    Only `status` and `id` are held to a type: a message that was taken must not be
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


_refusal = msgspec.json.Decoder(_Refusal)


def classify_word(word: Word, secrets: Iterable[str]) -> Retry | Defer | Rejected | Gone:
    """Say what a ticket or receipt other than `ok` means, without the secrets it may quote."""
    details = word.details if isinstance(word.details, dict) else {}
    code = _text(details.get("error")) or "unknown_error"
    detail = _redacted(_text(word.message), secrets)
    rule = _OF_MESSAGES.get(code)
    if rule is None:
        return Retry(_redacted(code, secrets), detail, speaks_against="target")
    match rule.outcome:
        case "retry":
            return Retry(code, detail, speaks_against=rule.speaks_against)
        case "defer":
            return Defer(code, rule.rest, detail, pauses=rule.pauses, alarm=rule.alarm)
        case "gone":
            return Gone(code, detail)
        case "rejected" | "split":
            return Rejected(code, detail)
        case _:
            assert_never(rule.outcome)


def classify_request(
    status: int, body: bytes, retry_after: timedelta | None, secrets: Iterable[str]
) -> Split | Retry | Defer | Rejected:
    """Say what an answer without tickets or receipts means, without the secrets it may quote."""
    error = _read(body)
    said = _text(error.code)
    rule = _OF_REQUESTS.get(said) or _OF_REQUESTS.get(_USUAL_CODES.get(status, ""))
    code = _redacted(said, secrets) or f"HTTP_{status}"
    detail = _redacted(_text(error.message), secrets)
    if rule is None:
        if status == HTTPStatus.OK:
            return Retry("unreadable_answer", detail or "Expo answered 200 with something else than its JSON")
        if status < HTTPStatus.BAD_REQUEST:
            return Defer(code, ALARM_REST, detail, alarm=True)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING:
            return Retry(code, detail, retry_after)
        return Rejected(code, detail)
    match rule.outcome:
        case "retry":
            return Retry(code, detail, retry_after)
        case "defer":
            asked = retry_after or rule.rest
            # An operator has to act first, which takes longer than a gateway may ask for.
            after = max(asked, rule.rest) if rule.alarm else asked
            return Defer(code, after, detail, pauses=rule.pauses, alarm=rule.alarm)
        case "split":
            return Split(code, detail, _projects(error.details))
        case "rejected" | "gone":
            return Rejected(code, detail)
        case _:
            assert_never(rule.outcome)


def _read(body: bytes) -> _Error:
    try:
        errors = _refusal.decode(body).errors
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Error(message="the answer was not the JSON that Expo gives")
    return errors[0] if errors else _Error()


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
