"""The public keys that verify people's tokens, fetched from the identity provider and cached."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import jwt
import msgspec
import structlog
from pyreqwest.client import Client

from tocsin.api.auth.fetching import FETCH_FAULTS, build_client, fetch

KEPT_SECONDS = 300.0
REFETCH_SECONDS = 10.0
STALE_SECONDS = 3_600.0
LARGEST_KEY_SET = 1_000_000
_OK = 200

_log = structlog.stdlib.get_logger(__name__)


class KeySetUnreachableError(Exception):
    """The key set cannot be fetched and none is cached."""


class _KeySetBody(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class SigningKey(msgspec.Struct, frozen=True):
    """One public key and its algorithm."""

    kid: str | None
    algorithm: str
    key: Any


class KeySet:
    """Finds the key of a token by its `kid`; an unknown `kid` triggers a fetch, at a limited rate."""

    def __init__(
        self,
        url: str,
        *,
        timeout: timedelta,
        monotonic: Callable[[], float] = time.monotonic,
        certificates: bytes | None = None,
    ) -> None:
        self._url = url
        self._timeout = timeout
        self._certificates = certificates
        self._monotonic = monotonic
        self._client: Client | None = None
        self._keys: Sequence[SigningKey] = ()
        self._fetched_at = -STALE_SECONDS
        self._asked_at = -STALE_SECONDS
        self._fetching = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> SigningKey | None:
        """Find the key with a `kid` for an algorithm; a token without `kid` needs the only such key."""
        found = self._pick(kid, algorithm)
        if found and (self._age() < KEPT_SECONDS or self._fetching.locked()):
            return found
        await self._refresh()
        if self._age() >= STALE_SECONDS:
            raise KeySetUnreachableError(f"The key set at {self._url} does not answer.")
        return self._pick(kid, algorithm)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._client:
            await self._client.close()

    def _pick(self, kid: str | None, algorithm: str) -> SigningKey | None:
        fitting = [key for key in self._keys if key.algorithm == algorithm and kid in {None, key.kid}]
        return fitting[0] if len(fitting) == 1 else None

    def _age(self) -> float:
        return self._monotonic() - self._fetched_at

    async def _refresh(self) -> None:
        async with self._fetching:
            if self._monotonic() - self._asked_at < REFETCH_SECONDS:
                return
            self._asked_at = self._monotonic()
            try:
                self._keys = _signing_keys(await self._fetch())
            except FETCH_FAULTS as error:
                _log.warning(
                    "key set fetch failed", host=urlsplit(self._url).hostname, error=type(error).__name__
                )
                return
            self._fetched_at = self._monotonic()

    async def _fetch(self) -> bytes:
        if self._client is None:
            self._client = build_client(self._timeout, certificates=self._certificates)
        status, body = await fetch(self._client.get(self._url), LARGEST_KEY_SET, self._timeout)
        if status != _OK:
            raise ValueError(f"the status is {status}")
        return body


def _signing_keys(body: bytes) -> list[SigningKey]:
    entries = msgspec.json.decode(body, type=_KeySetBody).keys
    return [key for entry in entries if (key := _signing_key(entry))]


def _signing_key(entry: dict[str, Any]) -> SigningKey | None:
    match entry:
        case {"kty": "RSA"}:
            algorithm = "RS256"
        case {"kty": "EC", "crv": "P-256"}:
            algorithm = "ES256"
        case _:
            return None
    if entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(entry, algorithm=algorithm).key
    except jwt.PyJWTError as error:
        _log.warning("signing key skipped", kid=entry.get("kid"), error=str(error))
        return None
    return SigningKey(entry.get("kid"), algorithm, key)
