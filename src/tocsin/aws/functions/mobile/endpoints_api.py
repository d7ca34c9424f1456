"""Endpoints as Tocsin's API has them."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from tocsin.aws.functions.parameters import Secret
from tocsin.aws.functions.results import RetryLaterError
from tocsin.wire.person.endpoints import (
    FIND_PATH,
    LARGEST_FIND,
    RETIRE_PATH,
    Endpoint,
    FindEndpoints,
    FoundEndpoints,
    PersonEndpoints,
    RetiredEndpoint,
    RetireEndpoint,
)

_UNAUTHENTICATED = 401
_OK = 200
_TIMEOUT = urllib3.Timeout(connect=2.0, read=5.0)
# Both calls may be repeated; the server closes connections that were idle while the function was frozen.
_ONCE_MORE = urllib3.Retry(
    total=1, redirect=0, status=0, other=0, allowed_methods=None, raise_on_redirect=False
)

Reply = TypeVar("Reply")


class ApiEndpoints:
    """Finds and retires endpoints by calls with an API key of the role `delivery`."""

    def __init__(self, url: str, key: Secret, connections: int) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._pool = urllib3.PoolManager(maxsize=connections, block=False)

    def find(self, user_ids: Sequence[str], type_: str, org_id: str | None) -> list[PersonEndpoints]:
        """Find the endpoints of people of an organisation who have not opted out of a type.

        Raise RetryLaterError if they cannot be found now.
        """
        people: list[PersonEndpoints] = []
        for start in range(0, len(user_ids), LARGEST_FIND):
            wanted = FindEndpoints(
                user_ids=[*user_ids[start : start + LARGEST_FIND]], type=type_, org_id=org_id
            )
            people += self._call(FIND_PATH, wanted, FoundEndpoints).people
        return people

    def retire(self, endpoint: Endpoint, code: str) -> bool:
        """Retire an endpoint; return whether it was active; raise RetryLaterError if that fails."""
        wanted = RetireEndpoint(
            endpoint_arn=endpoint.endpoint_arn, code=code, last_seen_at=endpoint.last_seen_at
        )
        return self._call(RETIRE_PATH, wanted, RetiredEndpoint).retired

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _call(self, path: str, body: msgspec.Struct, reply: type[Reply]) -> Reply:
        status, answer = self._post(path, body)
        if status == _UNAUTHENTICATED:
            # The key may have been rotated since it was read.
            self._key.forget()
            status, answer = self._post(path, body)
        if status != _OK:
            raise RetryLaterError(f"api_{status}")
        try:
            return msgspec.json.decode(answer, type=reply)
        except (msgspec.DecodeError, UnicodeError):
            raise RetryLaterError("api_unreadable") from None

    def _post(self, path: str, body: msgspec.Struct) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._key.get()}", "Content-Type": "application/json"}
        try:
            answer = self._pool.request(
                "POST",
                self._url + path,
                body=msgspec.json.encode(body),
                headers=headers,
                timeout=_TIMEOUT,
                retries=_ONCE_MORE,
                redirect=False,
            )
        except (HTTPError, OSError) as error:
            raise RetryLaterError(f"api_{type(error).__name__}") from None
        return answer.status, answer.data
