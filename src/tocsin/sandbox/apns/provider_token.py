"""Apple's check of provider tokens, with a key that only this sandbox honours."""

from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

KEY_ID = "SANDBOXKEY"
TEAM_ID = "SANDBOXTEA"

_BEARER = "bearer "
_LONGEST_LIFE_SECONDS = 3_600
_CLOCK_SKEW_SECONDS = 60
_TOKENS_KEPT = 1_000


class ProviderTokenCheck:
    """Knows the one key and the tokens that were found to be signed with it.

    Apple takes a new token every 20 minutes at most; here that limit is off until
    `least_seconds_between` says otherwise, as each test signs tokens of its own.
    """

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public_key = key.public_key()
        self.forget()

    @classmethod
    def prepare(cls, folder: Path) -> "ProviderTokenCheck":
        """Take the folder's key, or make one."""
        path = folder / "apns.p8"
        if path.exists():
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
            if isinstance(key, ec.EllipticCurvePrivateKey):
                return cls(key)
        check = cls(ec.generate_private_key(ec.SECP256R1()))
        check.write_key(path)
        return check

    def write_key(self, path: Path) -> Path:
        """Write the key as Apple hands it out."""
        path.touch(mode=0o600)
        path.write_bytes(
            self._key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return path

    def forget(self) -> None:
        """Forget every token that came in, and take new ones at any time."""
        self._signed_at: dict[str, int] = {}
        self._updated_at = float("-inf")
        self.least_seconds_between = 0.0

    def refusal(self, authorization: str | None, now: float) -> str | None:
        """Give Apple's reason to refuse an authorization header, if there is one."""
        if not authorization or authorization[: len(_BEARER)].lower() != _BEARER:
            return "MissingProviderToken"
        token = authorization[len(_BEARER) :]
        signed_at = self._signed_at.get(token)
        if signed_at is None:
            signed_at = self._read(token)
            if signed_at is None or signed_at > now + _CLOCK_SKEW_SECONDS:
                return "InvalidProviderToken"
            if 0 <= now - self._updated_at < self.least_seconds_between:
                return "TooManyProviderTokenUpdates"
            self._keep(token, signed_at, now)
        return "ExpiredProviderToken" if now - signed_at > _LONGEST_LIFE_SECONDS else None

    def _read(self, token: str) -> int | None:
        try:
            signed = jwt.decode_complete(
                token,
                self._public_key,
                algorithms=["ES256"],
                issuer=TEAM_ID,
                # The age is Apple's to judge, by the clock of the stand-in.
                options={"require": ["iss", "iat"], "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            return None
        signed_at = signed["payload"]["iat"]
        return signed_at if signed["header"].get("kid") == KEY_ID and isinstance(signed_at, int) else None

    def _keep(self, token: str, signed_at: int, now: float) -> None:
        if len(self._signed_at) >= _TOKENS_KEPT:
            self._signed_at.clear()
        self._signed_at[token] = signed_at
        self._updated_at = now
