"""HTTP responses of the sandbox."""

from typing import Any

import msgspec

JSON = ("content-type", "application/json; charset=UTF-8")
TEXT = ("content-type", "text/plain; charset=utf-8")
_PROBLEM = ("content-type", "application/problem+json")

Headers = tuple[tuple[str, str], ...]


class Response(msgspec.Struct, frozen=True):
    """A complete response, and the code under which it is counted."""

    code: str
    status: int
    body: bytes
    headers: Headers = (JSON,)

    def with_retry_after(self, seconds: int | None) -> "Response":
        """Return the response with a Retry-After header, if `seconds` is given."""
        if seconds is None:
            return self
        return msgspec.structs.replace(self, headers=(*self.headers, ("retry-after", str(seconds))))


class RefusedRequestError(Exception):
    """Ends the handling of a request with an error response."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.code)
        self.response = response


def json_response(content: Any, *, status: int = 200, code: str = "ok") -> Response:
    """Build a response with a JSON body."""
    return Response(code, status, msgspec.json.encode(content))


def problem(status: int, code: str, detail: str) -> Response:
    """Build a problem response (RFC 9457)."""
    body = {"type": "about:blank", "title": code.replace("_", " "), "status": status}
    return Response(code, status, msgspec.json.encode({**body, "code": code, "detail": detail}), (_PROBLEM,))
