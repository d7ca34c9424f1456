"""Apple's check of provider tokens, with a key that is valid in this sandbox only."""

from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tocsin.sandbox.certificates import private_pem, stored_key, write_private

KEY_ID = "SANDBOXKEY"
TEAM_ID = "SANDBOXTEA"

_BEARER = "bearer "
_LONGEST_LIFE_SECONDS = 3_600
_CLOCK_SKEW_SECONDS = 60
_TOKENS_KEPT = 1_000


class ProviderTokenCheck:
    """Checks provider tokens against the sandbox's one key, and caches the valid ones.

    Apple takes a new token every 20 minutes at most; here that limit is off until
    `least_seconds_between` is set, as each test signs tokens of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._key = stored_key(folder / "apns.p8", lambda: ec.generate_private_key(ec.SECP256R1()))
        self._public_key = self._key.public_key()
        self.forget()

    def write_key(self, path: Path) -> Path:
        """Write the key as a .p8 file."""
        return write_private(path, private_pem(self._key))

    def forget(self) -> None:
        """Forget every token that came in, and accept new ones at any time."""
        self._signed_at: dict[str, int] = {}
        self._updated_at = float("-inf")
        self.least_seconds_between = 0.0

    def error(self, authorization: str | None, now: float) -> str | None:
        """Return Apple's reason to refuse an authorization header, if there is one."""
        if not authorization or authorization[: len(_BEARER)].lower() != _BEARER:
            return "MissingProviderToken"
        token = authorization[len(_BEARER) :]
        signed_at = self._signed_at.get(token)
        if signed_at is None:
            signed_at = self._parse(token)
            if signed_at is None or signed_at > now + _CLOCK_SKEW_SECONDS:
                return "InvalidProviderToken"
            if 0 <= now - self._updated_at < self.least_seconds_between:
                return "TooManyProviderTokenUpdates"
            if len(self._signed_at) >= _TOKENS_KEPT:
                self._signed_at.clear()
            self._signed_at[token], self._updated_at = signed_at, now
        return "ExpiredProviderToken" if now - signed_at > _LONGEST_LIFE_SECONDS else None

    def _parse(self, token: str) -> int | None:
        try:
            signed = jwt.decode_complete(
                token,
                self._public_key,
                algorithms=["ES256"],
                issuer=TEAM_ID,
                # The age is checked afterwards, by the clock of the stand-in.
                options={"require": ["iss", "iat"], "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            return None
        signed_at = signed["payload"]["iat"]
        return signed_at if signed["header"].get("kid") == KEY_ID and isinstance(signed_at, int) else None
