"""The discovery document of an issuer, fetched when it is needed and cached."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlsplit

import msgspec
import structlog
from pyreqwest.client import Client

from tocsin.api.auth.fetching import FETCH_FAULTS, fetch
from tocsin.api.auth.oidc.errors import IssuerUnavailableError
from tocsin.api.auth.oidc.settings import is_safe_origin

KEPT_SECONDS = 3_600.0
REFETCH_SECONDS = 10.0
STALE_SECONDS = 86_400.0
LARGEST_DOCUMENT = 262_144
_OK = 200
_PATH = "/.well-known/openid-configuration"
_log = structlog.stdlib.get_logger(__name__)


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of the discovery document of an issuer."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    authorization_response_iss_parameter_supported: bool = False

    @property
    def endpoints(self) -> list[str]:
        """The addresses that are called, or that browsers are led to."""
        optional = (self.userinfo_endpoint, self.end_session_endpoint)
        required = (self.authorization_endpoint, self.token_endpoint, self.jwks_uri)
        return [*required, *(url for url in optional if url is not None)]


class Discovery:
    """Caches the discovery document; while the issuer is away the last one is used, for a day at most."""

    def __init__(
        self,
        issuer: str,
        client: Client,
        timeout: timedelta,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._client = client
        self._timeout = timeout
        self._monotonic = monotonic
        self._found: Metadata | None = None
        self._fetched_at = -STALE_SECONDS
        self._asked_at = -STALE_SECONDS
        self._fetching = asyncio.Lock()

    async def metadata(self) -> Metadata:
        """Return the document; raise IssuerUnavailableError if there is none that can be used."""
        if self._found is None or self._age() >= KEPT_SECONDS:
            await self._refresh()
        if self._found is None or self._age() >= STALE_SECONDS:
            raise IssuerUnavailableError("the discovery document cannot be fetched")
        return self._found

    def _age(self) -> float:
        return self._monotonic() - self._fetched_at

    async def _refresh(self) -> None:
        async with self._fetching:
            # Whoever waited for the lock uses what was fetched meanwhile.
            if self._monotonic() - self._asked_at < REFETCH_SECONDS:
                return
            self._asked_at = self._monotonic()
            try:
                self._found = await self._fetch()
            except FETCH_FAULTS as error:
                host = urlsplit(self._issuer).hostname
                # What such an error says may have a part of a foreign answer in it; ours names the fault.
                reason = str(error) if isinstance(error, _UnusableError) else type(error).__name__
                _log.warning("oidc discovery failed", host=host, error=reason)
                # Counted from the end, so that those who waited meanwhile do not wait as long again.
                self._asked_at = self._monotonic()
                return
            self._fetched_at = self._monotonic()

    async def _fetch(self) -> Metadata:
        request = self._client.get(self._issuer.rstrip("/") + _PATH)
        status, body = await fetch(request, LARGEST_DOCUMENT, self._timeout)
        if status != _OK:
            raise _UnusableError(f"the status is {status}")
        found = msgspec.json.decode(body, type=Metadata)
        if found.issuer != self._issuer:
            # Signatures are checked for this name, so it has to be the same to the last character.
            raise _UnusableError(f"it is of the issuer {found.issuer[:200]!r}, not of oidc.issuer")
        own = f"{urlsplit(self._issuer).scheme}://"
        unsafe = [
            url for url in found.endpoints if not (is_safe_origin(url) and url.startswith(("https://", own)))
        ]
        if unsafe:
            raise _UnusableError(f"it has an address that is not https://: {unsafe[0][:200]!r}")
        return found


class _UnusableError(ValueError):
    """The document was fetched and cannot be used."""
