"""What a receiver of webhooks may answer."""

from http import HTTPStatus

from tocsin.sandbox.answers import Answer, Headers

_TEXT: Headers = [("content-type", "text/plain; charset=utf-8")]
_REDIRECTS = (301, 302, 303, 307, 308)
_REFUSALS = (400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 425, 429)
_FAILURES = (500, 501, 502, 503, 504)


def taken() -> Answer:
    """Take what came, with nothing more to say."""
    return Answer("OK", HTTPStatus.NO_CONTENT, b"", [])


def not_a_webhook(missing: str) -> Answer:
    """Refuse what is not in the form of Standard Webhooks."""
    return Answer("HTTP_400", HTTPStatus.BAD_REQUEST, f"{missing} is missing".encode(), _TEXT)


def refusal(code: str, url: str) -> Answer:
    """Answer with the status that a code names, in words that quote the URL, as careless receivers do."""
    status = HTTPStatus(int(code.removeprefix("HTTP_")))
    headers = [*_TEXT, ("location", f"{url}/elsewhere")] if status in _REDIRECTS else _TEXT
    return Answer(code, status, f"{status.phrase}: {url}".encode(), headers)


CODES = frozenset(f"HTTP_{status}" for status in (*_REDIRECTS, *_REFUSALS, *_FAILURES))
"""Every answer that can be scripted."""
