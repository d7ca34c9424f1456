"""An OpenID Connect issuer that signs everybody in at once, and can be told to misbehave."""

import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from litestar import Litestar, Request, get, post
from litestar.response.base import ASGIResponse

from tests.edges.edge import listening

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
Claims = dict[str, Any]

RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
CLIENT_ID = "tocsin"
CLIENT_SECRET = "a secret: with signs & spaces %"


class Answer(msgspec.Struct, frozen=True):
    """An answer that an endpoint gives whatever it is asked."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = {}


class Issuer:
    """Discovery, authorization code flow with PKCE, key set, userinfo and sign-out."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client_secret: str | None = CLIENT_SECRET
        self.claims: Claims = {"sub": "u-1", "preferred_username": "ada", "groups": ["ops"]}
        self.user_info: Claims = {}
        self.alter: Callable[[Claims], Claims] = lambda claims: claims
        self.sign: Callable[[Claims], str] = self.signed
        self.metadata: Claims = {}
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.token_requests: list[dict[str, str]] = []
        self.signed_out: list[dict[str, str]] = []
        self.key: Private = RSA_KEY
        self.kid = "first"
        self._codes: dict[str, dict[str, str]] = {}

    def rotate(self, key: Private, kid: str) -> None:
        """Sign with another key, and publish that one alone."""
        self.key, self.kid = key, kid

    def signed(self, claims: Claims) -> str:
        algorithm = "RS256" if isinstance(self.key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(claims, self.key, algorithm=algorithm, headers={"kid": self.kid})

    def key_set(self) -> Claims:
        public: Any = self.key.public_key()
        is_rsa = isinstance(self.key, rsa.RSAPrivateKey)
        kind = jwt.algorithms.RSAAlgorithm if is_rsa else jwt.algorithms.ECAlgorithm
        return {"keys": [{**kind.to_jwk(public, as_dict=True), "kid": self.kid, "use": "sig"}]}

    def discovery(self) -> Claims:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=one",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "end_session_endpoint": f"{self.url}/end-session",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            **self.metadata,
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Sign somebody in, and return where their browser is led."""
        assert asked["client_id"] == CLIENT_ID
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.url, "session_state": "1.2"}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, asked: dict[str, str], authorization: str) -> tuple[int, Claims]:
        """Exchange a code, once, for tokens."""
        self.token_requests.append(asked)
        if self._given_secret(asked, authorization) != self.client_secret:
            return 401, {"error": "invalid_client"}
        begun = self._codes.pop(asked.get("code", ""), None)
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            begun is None
            or challenge != begun["code_challenge"]
            or asked["redirect_uri"] != begun["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant", "error_description": "never shown"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, **self.claims}
        id_token = self.sign(self.alter({**claims, "nonce": begun["nonce"]}))
        return 200, {"id_token": id_token, "access_token": "an-access-token", "token_type": "Bearer"}

    @staticmethod
    def _given_secret(asked: dict[str, str], authorization: str) -> str | None:
        if not authorization:
            assert asked["client_id"] == CLIENT_ID
            return asked.get("client_secret")
        decoded = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        client_id, _, secret = decoded.partition(":")
        assert unquote_plus(client_id) == CLIENT_ID
        return unquote_plus(secret)


@asynccontextmanager
async def running_issuer() -> AsyncIterator[Issuer]:
    """Serve an issuer; by its name it is another site than 127.0.0.1, as issuers are."""
    issuer = Issuer("")

    def answered(request: Request[Any, Any, Any], content: Any, status: int = 200) -> ASGIResponse:
        name = request.url.path.rpartition("/")[2]
        issuer.asked.append(name)
        if (fixed := issuer.answers.get(name)) is not None:
            return ASGIResponse(body=fixed.body, status_code=fixed.status, headers=fixed.headers)
        body = msgspec.json.encode(content)
        return ASGIResponse(body=body, status_code=status, media_type="application/json")

    @get("/.well-known/openid-configuration")
    async def discovery(request: Request[Any, Any, Any]) -> ASGIResponse:
        return answered(request, issuer.discovery())

    @get("/jwks")
    async def jwks(request: Request[Any, Any, Any]) -> ASGIResponse:
        return answered(request, issuer.key_set())

    @get("/authorize")
    async def authorize(request: Request[Any, Any, Any]) -> ASGIResponse:
        asked = dict(request.query_params.items())
        assert asked["tenant"] == "one"
        return ASGIResponse(status_code=302, headers={"location": issuer.authorize(asked)})

    @post("/token")
    async def token(request: Request[Any, Any, Any]) -> ASGIResponse:
        asked = dict(parse_qsl((await request.body()).decode()))
        status, content = issuer.exchange(asked, request.headers.get("authorization", ""))
        return answered(request, content, status)

    @get("/userinfo")
    async def userinfo(request: Request[Any, Any, Any]) -> ASGIResponse:
        assert request.headers["authorization"] == "Bearer an-access-token"
        return answered(request, {"sub": issuer.claims["sub"], **issuer.user_info})

    @get("/end-session")
    async def end_session(request: Request[Any, Any, Any]) -> ASGIResponse:
        asked = dict(request.query_params.items())
        issuer.signed_out.append(asked)
        return ASGIResponse(status_code=302, headers={"location": asked["post_logout_redirect_uri"]})

    routes = [discovery, jwks, authorize, token, userinfo, end_session]
    async with listening(Litestar(routes, openapi_config=None, logging_config=None)) as url:
        issuer.url = url.replace("127.0.0.1", "localhost")
        yield issuer
