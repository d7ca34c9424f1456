"""A directory that is a service: `GET /api/v1/internal/users/{user_id}`."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from tocsin.ingress.directory.lookup import DirectoryUnavailableError, People, Person, person_of
from tocsin.ingress.directory.settings import DirectorySettings

PATH = "/api/v1/internal/users/"
NOT_FOUND = b"subject_not_found"

_object = msgspec.json.Decoder(dict[str, Any])


class HttpDirectory:
    """Asks the service for one person a request, a bounded number at once."""

    def __init__(self, settings: DirectorySettings) -> None:
        self._url = settings.url.rstrip("/") + PATH
        self._free = asyncio.Semaphore(settings.concurrency)
        timeout = timedelta(seconds=settings.timeout)
        self._client = (
            ClientBuilder().timeout(timeout).connect_timeout(timeout).follow_redirects(False).build()
        )

    async def find(self, user_ids: Collection[str]) -> People:
        """Return every person asked for, or raise DirectoryUnavailableError."""
        tasks = {}
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {each: group.create_task(self._find_one(each)) for each in user_ids}
        except* DirectoryUnavailableError as errors:
            raise errors.exceptions[0] from None
        return {user_id: task.result() for user_id, task in tasks.items()}

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.close()

    async def _find_one(self, user_id: str) -> Person | None:
        async with self._free:
            try:
                answer = await self._client.get(self._url + quote(user_id, safe="")).build().send()
                body = bytes(await answer.bytes())
            except (PyreqwestError, TimeoutError) as error:
                raise DirectoryUnavailableError(f"the directory: {type(error).__name__}") from error
        if answer.status == HTTPStatus.NOT_FOUND and NOT_FOUND in body:
            return None
        if answer.status != HTTPStatus.OK:
            raise DirectoryUnavailableError(f"the directory answered with status {answer.status}")
        try:
            fields = _object.decode(body)
        except msgspec.DecodeError as error:
            raise DirectoryUnavailableError("the directory answered with something else than JSON") from error
        return person_of(fields.get("email"), fields.get("preferred_language"))
