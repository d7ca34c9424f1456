"""Answers as they go over the wire."""

from typing import Any

import msgspec

JSON = ("content-type", "application/json; charset=UTF-8")
PROBLEM = ("content-type", "application/problem+json")

Headers = list[tuple[str, str]]


class Answer(msgspec.Struct, frozen=True):
    """A whole response, and the code it is counted under."""

    code: str
    status: int
    body: bytes
    headers: Headers = msgspec.field(default_factory=lambda: [JSON])

    def with_retry_after(self, seconds: int | None) -> "Answer":
        """Add the Retry-After header when there is a wait to name."""
        if seconds is None:
            return self
        return msgspec.structs.replace(self, headers=[*self.headers, ("retry-after", str(seconds))])


def json_answer(content: Any, *, status: int = 200, code: str = "ok") -> Answer:
    """Answer with JSON."""
    return Answer(code, status, msgspec.json.encode(content))


def problem(status: int, code: str, detail: str) -> Answer:
    """Answer with a problem after RFC 9457, speaking to the caller."""
    body = {"type": "about:blank", "title": code.replace("_", " "), "status": status}
    return Answer(code, status, msgspec.json.encode({**body, "code": code, "detail": detail}), [PROBLEM])
