import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from litestar import Litestar, get
from litestar.response.base import ASGIResponse

from tests.edges.edge import SECRET, listening, person, running, services
from tocsin.api.auth.jwks import KEPT_SECONDS, REFETCH_SECONDS, STALE_SECONDS, KeySet, KeySetUnreachableError
from tocsin.api.auth.tokens import PersonTokens, TokenRefusedError
from tocsin.api.settings import AuthSettings
from tocsin.store.pool import Pool

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


class Time:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class IdentityProvider:
    """Publishes a key set over HTTP and counts how often it is asked."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = []
        self.status = 200
        self.asked = 0
        self.url = ""

    def publish(self, key: Private, kid: str, **more: Any) -> None:
        public: Any = key.public_key()
        kind = (
            jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        )
        self.keys.append({**kind.to_jwk(public, as_dict=True), "kid": kid, **more})


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    provider = IdentityProvider()

    @get("/jwks")
    async def jwks() -> ASGIResponse:
        provider.asked += 1
        return ASGIResponse(body=msgspec.json.encode({"keys": provider.keys}), status_code=provider.status)

    async with listening(Litestar([jwks], openapi_config=None, logging_config=None)) as url:
        provider.url = f"{url}/jwks"
        yield provider


@pytest.fixture
async def provider() -> AsyncIterator[IdentityProvider]:
    async with identity_provider() as opened:
        yield opened


@asynccontextmanager
async def tokens(provider: IdentityProvider, clock: Time, **settings: Any) -> AsyncIterator[PersonTokens]:
    key_set = KeySet(provider.url, timeout=timedelta(seconds=2), monotonic=clock)
    verifier = PersonTokens(AuthSettings(jwks_url=provider.url, **settings), key_set)
    try:
        yield verifier
    finally:
        await verifier.aclose()


def token(key: Any, algorithm: str, kid: str | None = None) -> str:
    headers = {"kid": kid} if kid else None
    return jwt.encode({"sub": "ada", "exp": time.time() + 60}, key, algorithm=algorithm, headers=headers)


async def test_both_algorithms_pass_over_http(pool: Pool, provider: IdentityProvider) -> None:
    provider.publish(RSA_KEY, "r")
    provider.publish(EC_KEY, "e")
    async with running(services(pool, auth=AuthSettings(jwks_url=provider.url))) as edge:
        for good in (token(RSA_KEY, "RS256", "r"), token(EC_KEY, "ES256", "e")):
            answer = await edge.http.get("/v1/devices", headers={"Authorization": f"Bearer {good}"})
            assert answer.status_code == 200
        refused = await edge.http.get("/v1/devices", headers=person("ada"))

    assert refused.status_code == 401
    assert provider.asked == 1


async def test_a_key_set_alone_never_takes_a_shared_secret(provider: IdentityProvider) -> None:
    provider.publish(RSA_KEY, "r")
    async with tokens(provider, Time()) as verifier:
        for secret in (SECRET, provider.keys[0]["n"]):
            with pytest.raises(TokenRefusedError, match="not accepted here"):
                await verifier.verify(token(secret, "HS256", "r"))


async def test_secret_and_key_set_live_side_by_side(provider: IdentityProvider) -> None:
    provider.publish(EC_KEY, "e")
    async with tokens(provider, Time(), jwt_secret=SECRET) as verifier:
        assert (await verifier.verify(token(SECRET, "HS256"))).user_id == "ada"
        assert (await verifier.verify(token(EC_KEY, "ES256", "e"))).user_id == "ada"


async def test_a_rotated_key_is_found_by_asking_again(provider: IdentityProvider) -> None:
    clock = Time()
    provider.publish(EC_KEY, "old")
    async with tokens(provider, clock) as verifier:
        await verifier.verify(token(EC_KEY, "ES256", "old"))
        provider.keys.clear()
        provider.publish(OTHER_KEY, "new")
        clock.now += REFETCH_SECONDS

        assert (await verifier.verify(token(OTHER_KEY, "ES256", "new"))).user_id == "ada"
        with pytest.raises(TokenRefusedError, match="not in the key set"):
            await verifier.verify(token(EC_KEY, "ES256", "old"))


async def test_unknown_keys_do_not_make_it_ask_all_the_time(provider: IdentityProvider) -> None:
    clock = Time()
    provider.publish(EC_KEY, "e")
    async with tokens(provider, clock) as verifier:
        for number in range(50):
            with pytest.raises(TokenRefusedError, match="not in the key set"):
                await verifier.verify(token(OTHER_KEY, "ES256", f"unknown{number}"))
        assert provider.asked == 1
        clock.now += REFETCH_SECONDS
        with pytest.raises(TokenRefusedError, match="not in the key set"):
            await verifier.verify(token(OTHER_KEY, "ES256", "unknown"))

    assert provider.asked == 2


async def test_a_key_is_not_good_for_another_algorithm_or_use(provider: IdentityProvider) -> None:
    provider.publish(RSA_KEY, "r", alg="RS512")
    provider.publish(EC_KEY, "e", use="enc")
    provider.keys.append({"kty": "EC", "crv": "P-256", "kid": "broken", "x": "?", "y": "?"})
    async with tokens(provider, Time()) as verifier:
        for key, algorithm, kid in (
            (RSA_KEY, "RS256", "r"),
            (EC_KEY, "ES256", "e"),
            (EC_KEY, "ES256", "broken"),
        ):
            with pytest.raises(TokenRefusedError, match="not in the key set"):
                await verifier.verify(token(key, algorithm, kid))


async def test_a_forged_signature_is_refused(provider: IdentityProvider) -> None:
    provider.publish(EC_KEY, "e")
    async with tokens(provider, Time()) as verifier:
        with pytest.raises(TokenRefusedError, match="Signature verification failed"):
            await verifier.verify(token(OTHER_KEY, "ES256", "e"))


async def test_a_token_without_a_key_id_needs_the_only_key(provider: IdentityProvider) -> None:
    clock = Time()
    provider.publish(EC_KEY, "one")
    async with tokens(provider, clock) as verifier:
        assert (await verifier.verify(token(EC_KEY, "ES256"))).user_id == "ada"
        provider.publish(OTHER_KEY, "two")
        clock.now += KEPT_SECONDS
        with pytest.raises(TokenRefusedError, match="not in the key set"):
            await verifier.verify(token(EC_KEY, "ES256"))


async def test_known_keys_outlive_an_outage_but_not_for_ever(provider: IdentityProvider) -> None:
    clock = Time()
    provider.publish(EC_KEY, "e")
    async with tokens(provider, clock) as verifier:
        await verifier.verify(token(EC_KEY, "ES256", "e"))
        provider.status = 503
        clock.now += KEPT_SECONDS

        assert (await verifier.verify(token(EC_KEY, "ES256", "e"))).user_id == "ada"
        clock.now += STALE_SECONDS
        with pytest.raises(KeySetUnreachableError):
            await verifier.verify(token(EC_KEY, "ES256", "e"))


async def test_an_unreachable_key_set_is_not_the_callers_fault(
    pool: Pool, provider: IdentityProvider
) -> None:
    provider.status = 500
    async with running(services(pool, auth=AuthSettings(jwks_url=provider.url))) as edge:
        headers = {"Authorization": f"Bearer {token(EC_KEY, 'ES256', 'e')}"}
        answer = await edge.http.get("/v1/devices", headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "retry-after" in answer.headers
    assert provider.url not in answer.text
