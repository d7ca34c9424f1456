"""A sign-in that has begun: what the issuer has to send back, derived from one secret of the browser."""

import base64
import hashlib
import hmac
import secrets


class PendingSignIn:
    """State, nonce and PKCE verifier of one sign-in; whoever does not have the secret can guess none."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    @classmethod
    def begin(cls) -> "PendingSignIn":
        """Begin a sign-in with a new secret."""
        return cls(secrets.token_urlsafe(32))

    @property
    def state(self) -> str:
        """What the issuer returns with the code; binds the answer to the browser that has the secret."""
        return self._derived(b"state")

    @property
    def nonce(self) -> str:
        """What the issuer puts into the ID token; binds the token to this sign-in."""
        return self._derived(b"nonce")

    @property
    def verifier(self) -> str:
        """The PKCE code verifier: a code that was stolen is of no use without it."""
        return self._derived(b"verifier")

    @property
    def challenge(self) -> str:
        """The S256 challenge of the verifier."""
        return _base64url(hashlib.sha256(self.verifier.encode()).digest())

    def is_state(self, given: str) -> bool:
        """Return whether a state is the one of this sign-in, in constant time."""
        return hmac.compare_digest(given.encode(errors="replace"), self.state.encode())

    def is_nonce(self, given: object) -> bool:
        """Return whether the claim of a token is the nonce of this sign-in, in constant time."""
        return isinstance(given, str) and hmac.compare_digest(
            given.encode(errors="replace"), self.nonce.encode()
        )

    def _derived(self, purpose: bytes) -> str:
        return _base64url(hmac.digest(self.secret.encode(), b"tocsin oidc " + purpose, "sha256"))


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
