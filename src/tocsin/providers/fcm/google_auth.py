"""Access tokens for Google's APIs, from a service account."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import google.auth.exceptions
from google.oauth2 import service_account
from pyreqwest.client import SyncClient, SyncClientBuilder
from pyreqwest.exceptions import PyreqwestError

from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.http.ca_file import read_ca_file

RENEW_AHEAD = timedelta(minutes=5)
"""How long before its end a token is renewed; a short-lived one at half its life."""


class TokenUnavailableError(Exception):
    """No access token could be fetched; `lasting` means that a retry will not help."""

    def __init__(self, detail: str, *, lasting: bool) -> None:
        self.lasting = lasting
        super().__init__(detail)


class AccessTokens:
    """Keeps one access token and renews it ahead of its end, once for all who ask.

    `project_id` is the project that the service account belongs to.
    """

    def __init__(self, credentials_file: Path, scope: str, ca_file: Path | None) -> None:
        self._credentials = _load(credentials_file, scope)
        self.project_id: str | None = self._credentials.project_id
        self._transport = _Transport(ca_file)
        self._renewing = asyncio.Lock()
        self._token = ""
        self._good_until = float("-inf")
        self._failed_at = float("-inf")
        self._failure = ("", False)

    @property
    def current(self) -> str | None:
        """The token, if it is good for some minutes more."""
        return self._token if time.monotonic() < self._good_until else None

    async def get(self) -> str:
        """Return a token that is good for some minutes more, fetched if need be."""
        asked_at = time.monotonic()
        if asked_at < self._good_until:
            return self._token
        async with self._renewing:
            if time.monotonic() >= self._good_until:
                await self._renew(asked_at)
            return self._token

    async def replace(self, refused: str | None) -> str:
        """Return another token than the one that was refused, if any was."""
        if self._token == refused:
            self._good_until = float("-inf")
        return await self.get()

    async def _renew(self, asked_at: float) -> None:
        if self._failed_at >= asked_at:
            # Whoever waited while another's renewal failed shares its failure. Each trying in turn
            # would hold the last of them for longer than its lease.
            detail, lasting = self._failure
            raise TokenUnavailableError(detail, lasting=lasting)
        try:
            await asyncio.to_thread(self._credentials.refresh, self._transport)
            lifetime = self._credentials.expiry.replace(tzinfo=UTC) - datetime.now(UTC)
        except google.auth.exceptions.GoogleAuthError as error:
            lasting = isinstance(error, google.auth.exceptions.RefreshError) and not error.retryable
            raise self._failed(_first(error), lasting=lasting) from error
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            # google-auth trusts whatever says 200 to be the token endpoint.
            raise self._failed("the token endpoint did not answer as Google's does", lasting=False) from error
        self._token = self._credentials.token
        self._good_until = time.monotonic() + (lifetime - min(RENEW_AHEAD, lifetime / 2)).total_seconds()

    def _failed(self, detail: str, *, lasting: bool) -> TokenUnavailableError:
        self._failed_at = time.monotonic()
        self._failure = (detail, lasting)
        return TokenUnavailableError(detail, lasting=lasting)

    def close(self) -> None:
        """Close the connection to the token endpoint."""
        self._transport.close()


class _Answer(NamedTuple):
    """What google-auth reads of a response."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _Transport:
    """Sends the requests of google-auth through pyreqwest, as everything else is sent."""

    def __init__(self, ca_file: Path | None) -> None:
        builder = SyncClientBuilder().error_for_status(enable=False).timeout(timedelta(seconds=10))
        if certificates := read_ca_file(ca_file):
            builder = builder.add_root_certificate_pem(certificates)
        self._client: SyncClient = builder.build()

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **_: Any,
    ) -> _Answer:
        request = self._client.request(method, url).headers(headers or {}).body_bytes(body or b"")
        try:
            response = request.build().send()
            return _Answer(response.status, dict(response.headers), bytes(response.bytes()))
        except PyreqwestError as error:
            raise google.auth.exceptions.TransportError(type(error).__name__) from error  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self._client.close()


def _load(credentials_file: Path, scope: str) -> Any:
    try:
        return service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            credentials_file, scopes=[scope]
        )
    except (OSError, ValueError, AttributeError, google.auth.exceptions.GoogleAuthError) as error:
        raise ProviderSetupError(
            f"The service account file {credentials_file} cannot be used: {_first(error)}. "
            "TOCSIN_FCM__CREDENTIALS_FILE must name the JSON key of a Google service account."
        ) from error


def _first(error: BaseException) -> str:
    """Return the message without the response body that google-auth puts behind it."""
    return str(error.args[0]) if error.args else type(error).__name__
