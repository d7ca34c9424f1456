"""Provider tokens for APNs: signed with the team's key, one for all messages of a process."""

import time
from collections.abc import Callable

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

RENEW_AFTER_SECONDS = 40 * 60
"""Apple refuses tokens older than 60 minutes, and updates that follow each other within 20."""

LEAST_SECONDS_BETWEEN = 20 * 60


class ProviderTokens:
    """Keeps one signed token and signs the next before it expires."""

    def __init__(
        self,
        key: ec.EllipticCurvePrivateKey,
        *,
        key_id: str,
        team_id: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._key_id = key_id
        self._team_id = team_id
        self._clock = clock
        self._header = ""
        self._signed_at = float("-inf")
        self._replaced_at = float("-inf")

    def header(self) -> str:
        """Return the authorization header of this moment."""
        # A clock that was set back makes the token one of the future, which Apple refuses.
        if not -1 <= self._clock() - self._signed_at < RENEW_AFTER_SECONDS:
            self._sign()
        return self._header

    def replace(self, refused: str) -> str | None:
        """Return another header than the one that was refused as expired.

        None if the refused one replaced another just now: signing again would not make it younger.
        """
        if self._header != refused:
            return self._header
        now = self._clock()
        if 0 <= now - self._replaced_at < LEAST_SECONDS_BETWEEN:
            return None
        self._replaced_at = now
        self._sign()
        return self._header

    def _sign(self) -> None:
        self._signed_at = self._clock()
        claims = {"iss": self._team_id, "iat": int(self._signed_at)}
        token = jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": self._key_id})
        self._header = f"bearer {token}"
