"""Tokens that are forged or of somebody else, and an issuer that is away or hostile."""

import asyncio
import base64
import time
from datetime import timedelta
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.edges.api.dashboard.oidc.issuer import CLIENT_ID, RSA_KEY, Answer, Claims, Issuer
from tests.edges.api.dashboard.oidc.sign_ins import (
    START,
    begin,
    changed,
    consent,
    edge_of,
    is_signed_in,
    sign_in,
    spent,
)
from tests.edges.api.dashboard.visits import SIGN_IN, Visit
from tests.edges.edge import Edge
from tocsin.api.auth.fetching import build_client
from tocsin.api.auth.oidc import metadata
from tocsin.api.auth.oidc.errors import IssuerUnavailableError
from tocsin.api.auth.oidc.metadata import Discovery
from tocsin.api.auth.roles import Role
from tocsin.store.pool import Pool

OTHER_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
PUBLIC_PEM = RSA_KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
DEEP = b'{"a":' + b"[" * 100_000


def without(claims: Claims, name: str) -> Claims:
    return {key: value for key, value in claims.items() if key != name}


ALTERED: dict[str, tuple[Any, str]] = {
    "nonce": (lambda claims: {**claims, "nonce": "another"}, "of another sign-in (nonce)"),
    "no nonce": (lambda claims: without(claims, "nonce"), "of another sign-in (nonce)"),
    "nonce of another type": (lambda claims: {**claims, "nonce": ["a"]}, "of another sign-in (nonce)"),
    "audience": (lambda claims: {**claims, "aud": "another"}, "for another client (aud)"),
    "no audience": (lambda claims: without(claims, "aud"), "no claim aud"),
    "shared audience": (lambda claims: {**claims, "aud": [CLIENT_ID, "x"]}, "issued to another client (azp)"),
    "party": (lambda claims: {**claims, "azp": "another"}, "issued to another client (azp)"),
    "issuer": (lambda claims: {**claims, "iss": "https://evil.example.org"}, "from another issuer (iss)"),
    "expired": (lambda claims: {**claims, "exp": time.time() - 90}, "has expired"),
    "no expiry": (lambda claims: without(claims, "exp"), "no claim exp"),
    "from the future": (lambda claims: {**claims, "iat": time.time() + 90}, "from the future"),
    "not issued": (lambda claims: without(claims, "iat"), "no claim iat"),
    "no subject": (lambda claims: without(claims, "sub"), "no claim sub"),
    "long subject": (lambda claims: {**claims, "sub": "s" * 300}, "no subject that can be used"),
    "empty subject": (lambda claims: {**claims, "sub": ""}, "no subject that can be used"),
}


def unsigned(claims: Claims) -> str:
    return jwt.encode(claims, "", algorithm="none")


def signed_with_public_key(claims: Claims) -> str:
    """Sign as a shared secret with the public key: PyJWT refuses to, so it is done by hand."""
    import hashlib
    import hmac

    def part(content: bytes) -> bytes:
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    header = part(b'{"alg":"HS256","kid":"first","typ":"JWT"}')
    content = header + b"." + part(msgspec.json.encode(claims))
    signature = part(hmac.digest(PUBLIC_PEM, content, hashlib.sha256))
    return (content + b"." + signature).decode()


def stripped(claims: Claims) -> str:
    token = jwt.encode(claims, RSA_KEY, algorithm="RS256", headers={"kid": "first"})
    return token.rpartition(".")[0] + "."


SIGNED: dict[str, tuple[Any, str]] = {
    "unsigned": (unsigned, "algorithm that is not accepted"),
    "public key as a secret": (signed_with_public_key, "algorithm that is not accepted"),
    "signature left out": (stripped, "signature is wrong"),
    "another key": (
        lambda claims: jwt.encode(claims, OTHER_KEY, algorithm="RS256", headers={"kid": "first"}),
        "signature is wrong",
    ),
    "unknown key": (
        lambda claims: jwt.encode(claims, OTHER_KEY, algorithm="RS256", headers={"kid": "x"}),
        "not in the issuer&#39;s key set",
    ),
    "another algorithm": (
        lambda claims: jwt.encode(claims, RSA_KEY, algorithm="RS512", headers={"kid": "first"}),
        "algorithm that is not accepted",
    ),
    "no token": (lambda _: "gibberish", "not a JWT"),
    "a very long token": (lambda _: "a" * 70_000, "longer than 65536"),
    "a deep header": (lambda _: base64.urlsafe_b64encode(b"[" * 30_000).decode() + ".e30.AA", "not a JWT"),
}


@pytest.mark.parametrize("case", ALTERED)
async def test_a_token_for_somebody_or_something_else_is_refused(
    edge: Edge, issuer: Issuer, case: str
) -> None:
    issuer.alter, reason = ALTERED[case]

    page = await sign_in(edge)

    assert (page.status_code, reason in page.text) == (403, True), page.text
    assert not await is_signed_in(edge)


@pytest.mark.parametrize("case", SIGNED)
async def test_a_token_that_the_issuer_did_not_sign_is_refused(edge: Edge, issuer: Issuer, case: str) -> None:
    issuer.sign, reason = SIGNED[case]

    page = await sign_in(edge)

    assert (page.status_code, reason in page.text) == (403, True), page.text
    assert not await is_signed_in(edge)


@pytest.mark.parametrize("claims", [{"exp": -30}, {"iat": 30}])
async def test_clocks_may_differ_by_the_leeway(edge: Edge, issuer: Issuer, claims: dict[str, int]) -> None:
    issuer.alter = lambda given: {**given, **{name: time.time() + by for name, by in claims.items()}}

    assert (await sign_in(edge)).status_code == 200


async def test_several_audiences_are_accepted_for_this_client(edge: Edge, issuer: Issuer) -> None:
    issuer.alter = lambda claims: {**claims, "aud": [CLIENT_ID, "x"], "azp": CLIENT_ID}

    assert (await sign_in(edge)).status_code == 200


async def test_an_answer_that_names_another_issuer_is_refused(edge: Edge, issuer: Issuer) -> None:
    back = await consent(await begin(edge))
    page = await edge.http.get(changed(back, iss="https://evil.example.org"))
    assert (page.status_code, "from another issuer" in page.text, spent(issuer)) == (403, True, 0)


async def test_an_issuer_that_promises_its_name_has_to_send_it(edge: Edge, issuer: Issuer) -> None:
    issuer.metadata["authorization_response_iss_parameter_supported"] = True
    back = await consent(await begin(edge))
    assert (await edge.http.get(changed(back, iss=None))).status_code == 403
    assert spent(issuer) == 0


HOSTILE = {
    "an error": Answer(b"", status=500),
    "a page": Answer(b"<html>", headers={"content-type": "text/html"}),
    "a list": Answer(b"[]"),
    "null": Answer(b"null"),
    "other types": Answer(b'{"issuer": 1, "id_token": 1, "keys": 1, "sub": 1, "authorization_endpoint": []}'),
    "deep": Answer(DEEP),
    "huge": Answer(b'{"a": "' + b"a" * 1_100_000 + b'"}'),
    "a redirect": Answer(b"", status=302, headers={"location": "http://127.0.0.1:9/"}),
    "no text": Answer(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("endpoint", ["openid-configuration", "token", "jwks", "userinfo"])
async def test_answers_that_cannot_be_used_end_in_the_form(
    edge: Edge, issuer: Issuer, endpoint: str, case: str
) -> None:
    issuer.answers[endpoint] = HOSTILE[case]
    if endpoint == "userinfo":
        del issuer.claims["groups"]

    answer = await edge.http.get(START)
    if endpoint != "openid-configuration":
        answer = await edge.http.get(await consent(answer.headers["location"]))

    is_refused = (endpoint, case) == ("token", "a redirect")
    assert answer.status_code == (403 if is_refused else 503), answer.text
    assert "sign in with an API key" in answer.text or "refused the code" in answer.text
    assert not await is_signed_in(edge)


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example.org"},
        {"token_endpoint": "http://example.org/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"end_session_endpoint": "data:text/html,x"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "https://user:password@example.org/"},
        {"authorization_endpoint": "https://example.org/\r\nSet-Cookie: a=b"},
    ],
)
async def test_a_discovery_document_with_unsafe_addresses_is_refused(
    edge: Edge, issuer: Issuer, changes: dict[str, str]
) -> None:
    issuer.metadata |= changes

    assert (await edge.http.get(START)).status_code == 503


async def test_the_issuer_is_asked_once_in_a_while_while_it_is_away(edge: Edge, issuer: Issuer) -> None:
    issuer.answers["openid-configuration"] = Answer(b"", status=503)
    for _ in range(5):
        assert (await edge.http.get(START)).status_code == 503
    assert issuer.asked.count("openid-configuration") == 1


async def test_an_issuer_that_hangs_is_not_waited_for_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, asked = 1_000.0, 0

    async def hang(_: Discovery) -> None:
        nonlocal now, asked
        await asyncio.sleep(0)
        now, asked = now + 30, asked + 1
        raise TimeoutError

    monkeypatch.setattr(Discovery, "_fetch", hang)
    longest = timedelta(seconds=30)
    async with build_client(longest) as client:
        discovery = Discovery("https://id.example.com", client, longest, lambda: now)
        answers = await asyncio.gather(*(discovery.metadata() for _ in range(5)), return_exceptions=True)

    assert ([type(answer) for answer in answers], asked) == ([IssuerUnavailableError] * 5, 1)


async def test_what_was_discovered_is_used_while_the_issuer_is_away(
    edge: Edge, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(edge)
    issuer.answers["openid-configuration"] = Answer(b"", status=503)
    monkeypatch.setattr(metadata, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(metadata, "REFETCH_SECONDS", 0.0)

    assert (await edge.http.get(START)).status_code == 303
    assert issuer.asked.count("openid-configuration") == 2


async def test_keys_sign_in_while_the_issuer_is_away(pool: Pool) -> None:
    async with edge_of(pool, "http://localhost:9") as edge:
        away = await edge.http.get(START, params={"next": "/dashboard/people"})
        assert (away.status_code, "The issuer cannot be used at the moment." in away.text) == (503, True)
        assert 'name="next" value="/dashboard/people"' in away.text
        key = (await edge.key(Role.VIEWER, "console"))["Authorization"].removeprefix("Bearer ")
        assert (await Visit(edge.http).sign_in(key)).status_code == 303
        assert await is_signed_in(edge)
        assert (await Visit(edge.http).post("/dashboard/sign-out")).headers["location"] == SIGN_IN


async def test_secrets_codes_and_tokens_are_not_logged(
    edge: Edge, issuer: Issuer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    await sign_in(edge)
    issuer.sign = signed_with_public_key
    await sign_in(edge)
    issuer.client_secret = "another"
    await sign_in(edge)

    written = caplog.text + "".join(capsys.readouterr())
    secrets = [issuer.token_requests[0][name] for name in ("code", "code_verifier")]
    for secret in (*secrets, "a secret: with", "eyJ", "an-access-token"):
        assert secret not in written
