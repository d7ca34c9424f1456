"""A directory that is a service: `GET /api/v1/internal/users/{user_id}`."""

import asyncio
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
import structlog
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError
from pyreqwest.response import Response

from tocsin.ingress.directory.lookup import DirectoryUnavailableError, People, Person, person_of
from tocsin.ingress.directory.settings import DirectorySettings

PATH = "/api/v1/internal/users/"
NOT_FOUND = b"subject_not_found"
LARGEST_ANSWER = 65_536
"""Bytes of an answer about one person."""
# Inside a URL these are steps to another path, escaped or not, so nobody can be asked for by them.
_DOT_SEGMENTS = {".", ".."}
# What a client error says about the request as such, or about the moment. Any other is about the user id.
_NOT_ABOUT_THE_ID = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.MISDIRECTED_REQUEST,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.UPGRADE_REQUIRED,
    HTTPStatus.TOO_MANY_REQUESTS,
}

_object = msgspec.json.Decoder(dict[str, Any])
_log = structlog.stdlib.get_logger(__name__)


class HttpDirectory:
    """Asks the service for one person a request, a bounded number at once."""

    def __init__(self, settings: DirectorySettings) -> None:
        self._url = settings.url.rstrip("/") + PATH
        self._concurrency = settings.concurrency
        self._free = asyncio.Semaphore(settings.concurrency)
        timeout = timedelta(seconds=settings.timeout)
        self._client = (
            ClientBuilder().timeout(timeout).connect_timeout(timeout).follow_redirects(False).build()
        )

    async def find(self, user_ids: Collection[str]) -> People:
        """Return every person asked for, or raise DirectoryUnavailableError with those that were found."""
        found: dict[str, Person | None] = {each: None for each in user_ids if each in _DOT_SEGMENTS}
        waiting = iter([each for each in dict.fromkeys(user_ids) if each not in found])
        refused: Counter[int] = Counter()
        failures: list[str] = []

        async def look_up() -> None:
            """Look people up until none waits or one look-up fails: a service may be down."""
            for user_id in waiting:
                try:
                    found[user_id] = await self._find_one(user_id, refused)
                except DirectoryUnavailableError as error:
                    failures.append(str(error))
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._concurrency, len(user_ids))):
                group.create_task(look_up())
        for status, count in refused.items():
            _log.warning("directory lookups refused", status=status, people=count)
        if failures:
            raise DirectoryUnavailableError(failures[0], found)
        return found

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.close()

    async def _find_one(self, user_id: str, refused: Counter[int]) -> Person | None:
        async with self._free:
            try:
                request = self._client.get(self._url + quote(user_id, safe=""))
                async with request.build_streamed() as answer:
                    status, body = answer.status, await _read(answer)
            except (PyreqwestError, TimeoutError, ValueError) as error:
                # A ValueError quotes the URL, which may hold a password.
                raise DirectoryUnavailableError(f"the directory: {type(error).__name__}") from None
        if status == HTTPStatus.NOT_FOUND and NOT_FOUND in body:
            return None
        if (
            HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
            and status not in _NOT_ABOUT_THE_ID
        ):
            refused[status] += 1
            return None
        if status != HTTPStatus.OK:
            raise DirectoryUnavailableError(f"the directory answered with status {status}")
        try:
            fields = _object.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise DirectoryUnavailableError(
                "the directory answered with something else than a JSON object"
            ) from None
        return person_of(fields.get("email"), fields.get("preferred_language"))


async def _read(answer: Response) -> bytes:
    """Read an answer, or raise DirectoryUnavailableError for one that no directory would give."""
    body = b""
    while chunk := await answer.body_reader.read_chunk():
        body += bytes(chunk)
        if len(body) > LARGEST_ANSWER:
            raise DirectoryUnavailableError(f"the directory answered with more than {LARGEST_ANSWER:,} bytes")
    return body
