"""A client of an OpenID Connect issuer: authorization code flow with PKCE, and sign-out."""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
import structlog
from pyreqwest.client import Client
from pyreqwest.request import RequestBuilder

from tocsin.api.auth.claims import claim
from tocsin.api.auth.fetching import FETCH_FAULTS, build_client, fetch
from tocsin.api.auth.jwks import KeySet, KeySetUnreachableError
from tocsin.api.auth.oidc.errors import IssuerUnavailableError, SignInRefusedError
from tocsin.api.auth.oidc.id_tokens import verify_id_token
from tocsin.api.auth.oidc.identity import Identity, identity_of
from tocsin.api.auth.oidc.metadata import Discovery, Metadata
from tocsin.api.auth.oidc.pending import PendingSignIn
from tocsin.api.auth.oidc.settings import OidcSettings

LARGEST_ANSWER = 262_144
MOST_AT_ONCE = 8
_ALWAYS_ASKED = ("openid", "profile", "email")
_LONGEST_CODE = 60
_OK, _LOWEST_SERVER_ERROR, _TOO_MANY = 200, 500, 429
_log = structlog.stdlib.get_logger(__name__)

S = TypeVar("S", bound=msgspec.Struct)


class TokenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the token endpoint."""

    id_token: str
    access_token: str | None = None

    def __repr__(self) -> str:
        """Show no token."""
        return "TokenAnswer(…)"


class _UserInfo(msgspec.Struct, frozen=True):
    sub: str


class OidcClient:
    """Leads browsers to the issuer and exchanges what they bring back; fetches nothing before that."""

    def __init__(
        self,
        settings: OidcSettings,
        redirect_uri: str,
        after_sign_out: str,
        *,
        certificates: bytes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if settings.issuer is None or settings.client_id is None:
            raise ValueError("a client needs an issuer and an id")
        self.issuer = settings.issuer
        self.settings = settings
        self._client_id = settings.client_id
        self._redirect_uri = redirect_uri
        self._after_sign_out = after_sign_out
        self._certificates = certificates
        self._monotonic = monotonic
        self._timeout = timedelta(seconds=settings.timeout_seconds)
        self._http: Client | None = None
        self._found: Discovery | None = None
        self._key_sets: dict[str, KeySet] = {}
        # Strangers can send codes too: they do not make more connections to the issuer than this.
        self._exchanging = asyncio.Semaphore(MOST_AT_ONCE)

    async def authorization_url(self, pending: PendingSignIn) -> str:
        """Return where to lead a browser; raise IssuerUnavailableError."""
        metadata = await self._metadata()
        return _with_query(
            metadata.authorization_endpoint,
            {
                "response_type": "code",
                "client_id": self._client_id,
                "redirect_uri": self._redirect_uri,
                "scope": " ".join(dict.fromkeys((*_ALWAYS_ASKED, *self.settings.scopes))),
                "state": pending.state,
                "nonce": pending.nonce,
                "code_challenge": pending.challenge,
                "code_challenge_method": "S256",
            },
        )

    async def sign_in(self, code: str, pending: PendingSignIn, answered_by: str | None) -> Identity:
        """Exchange a code for an ID token and return whose it is.

        `answered_by` is the parameter `iss` of the redirect (RFC 9207). Raises IssuerUnavailableError,
        SignInRefusedError and NoRoleError.
        """
        metadata = await self._metadata()
        is_needed = metadata.authorization_response_iss_parameter_supported
        if (answered_by is not None or is_needed) and answered_by != self.issuer:
            raise SignInRefusedError("The answer is from another issuer (iss).")
        async with self._exchanging:
            tokens = await self._exchange(metadata, code, pending)
            try:
                claims = await verify_id_token(
                    tokens.id_token,
                    self._key_set(metadata.jwks_uri),
                    pending,
                    issuer=self.issuer,
                    client_id=self._client_id,
                    leeway_seconds=self.settings.leeway_seconds,
                )
            except KeySetUnreachableError as error:
                raise IssuerUnavailableError("the key set cannot be fetched") from error
            if claim(claims, self.settings.role_claim) is None:
                claims = {**await self._user_info(metadata, tokens, claims), **claims}
        return identity_of(claims, tokens.id_token, self.settings)

    async def sign_out_url(self, id_token: str | None) -> str | None:
        """Return where to lead a browser to sign out at the issuer; None if it has no such address."""
        try:
            metadata = await self._metadata()
        except IssuerUnavailableError:
            return None
        if metadata.end_session_endpoint is None:
            return None
        fields = {"client_id": self._client_id, "post_logout_redirect_uri": self._after_sign_out}
        hint = {} if id_token is None else {"id_token_hint": id_token}
        return _with_query(metadata.end_session_endpoint, {**fields, **hint})

    async def aclose(self) -> None:
        """Close the connections."""
        for key_set in self._key_sets.values():
            await key_set.aclose()
        if self._http is not None:
            await self._http.close()

    async def _metadata(self) -> Metadata:
        if self._found is None:
            self._found = Discovery(self.issuer, self._client, self._timeout, self._monotonic)
        return await self._found.metadata()

    @property
    def _client(self) -> Client:
        if self._http is None:
            # A redirect could lead the secret of the client elsewhere.
            self._http = build_client(self._timeout, follow_redirects=False, certificates=self._certificates)
        return self._http

    def _key_set(self, url: str) -> KeySet:
        found = self._key_sets.get(url)
        if found is None:
            found = self._key_sets[url] = KeySet(
                url, timeout=self._timeout, monotonic=self._monotonic, certificates=self._certificates
            )
        return found

    async def _exchange(self, metadata: Metadata, code: str, pending: PendingSignIn) -> TokenAnswer:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": pending.verifier,
        }
        request = self._client.post(metadata.token_endpoint)
        secret = self._secret()
        # Without a list in the discovery document it is the default of the standard.
        methods = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
        if secret is None:
            request = request.form({**fields, "client_id": self._client_id})
        elif "client_secret_basic" in methods:
            request = request.basic_auth(quote_plus(self._client_id), quote_plus(secret)).form(fields)
        else:
            request = request.form({**fields, "client_id": self._client_id, "client_secret": secret})
        status, body = await self._send(request, "token")
        if status >= _LOWEST_SERVER_ERROR or status == _TOO_MANY:
            self._unavailable("token", f"status {status}")
        if status != _OK:
            self._refused(status, body)
        return self._decoded(body, TokenAnswer, "token")

    async def _user_info(
        self, metadata: Metadata, tokens: TokenAnswer, claims: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the claims of the userinfo endpoint: some issuers keep groups out of ID tokens."""
        if metadata.userinfo_endpoint is None or tokens.access_token is None:
            return {}
        request = self._client.get(metadata.userinfo_endpoint).bearer_auth(tokens.access_token)
        status, body = await self._send(request, "userinfo")
        if status != _OK:
            self._unavailable("userinfo", f"status {status}")
        if self._decoded(body, _UserInfo, "userinfo").sub != claims["sub"]:
            raise SignInRefusedError("The issuer's userinfo is about somebody else (sub).")
        found: dict[str, Any] = msgspec.json.decode(body)
        return found

    async def _send(self, request: RequestBuilder, step: str) -> tuple[int, bytes]:
        try:
            return await fetch(request.header("accept", "application/json"), LARGEST_ANSWER, self._timeout)
        except FETCH_FAULTS as error:
            self._unavailable(step, type(error).__name__)

    def _decoded(self, body: bytes, type_: type[S], step: str) -> S:
        try:
            # Decoded as a whole first, so that hostile nesting is refused wherever it is.
            return msgspec.convert(msgspec.json.decode(body), type_)
        except FETCH_FAULTS as error:
            self._unavailable(step, type(error).__name__)

    def _unavailable(self, step: str, error: str) -> NoReturn:
        _log.warning("oidc issuer unusable", host=urlsplit(self.issuer).hostname, step=step, error=error)
        raise IssuerUnavailableError(f"{step}: {error}")

    def _refused(self, status: int, body: bytes) -> NoReturn:
        """Raise why the issuer refused the code: `invalid_client` is the operator's to fix."""
        code = error_code(body)
        host = urlsplit(self.issuer).hostname
        _log.warning("oidc code refused", host=host, status=status, error=code)
        raise SignInRefusedError(f"The issuer refused the code ({code}).")

    def _secret(self) -> str | None:
        if self.settings.client_secret_file is None:
            return self.settings.client_secret
        try:
            return read_secret(self.settings.client_secret_file)
        except (OSError, ValueError) as error:
            self._unavailable("client_secret_file", type(error).__name__)


def read_secret(file: Path) -> str:
    """Read the secret of the client; raise OSError or ValueError if there is none in the file."""
    secret = file.read_text().strip()
    if not secret:
        raise ValueError("the file is empty")
    return secret


def error_code(body: bytes) -> str:
    """Return the OAuth error code of an answer, if it has one that can be shown."""
    try:
        found = msgspec.json.decode(body)
    except FETCH_FAULTS:
        return "no error code"
    return shown_code(found.get("error") if isinstance(found, dict) else None)


def shown_code(given: object) -> str:
    """Return an OAuth error code as it can be shown and logged."""
    is_code = (
        isinstance(given, str) and len(given) <= _LONGEST_CODE and given.isascii() and given.isidentifier()
    )
    return str(given) if is_code else "no error code"


def _with_query(url: str, fields: Mapping[str, str]) -> str:
    """Add fields to the query of a URL; the issuer's own ones are kept."""
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(fields)}"
