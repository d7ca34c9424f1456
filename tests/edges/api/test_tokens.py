import base64
import json
import time
from typing import Any

import jwt
import pytest

from tests.edges.edge import SECRET, Edge, person, running, services
from tocsin.api.auth.roles import Role
from tocsin.api.settings import AuthSettings, auth_settings_faults
from tocsin.domain.errors import SettingsError
from tocsin.settings.load import load_settings
from tocsin.store.pool import Pool


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def signed(claims: dict[str, Any], secret: str = SECRET, algorithm: str = "HS256") -> dict[str, str]:
    return bearer(jwt.encode(claims, secret, algorithm=algorithm))


def later(seconds: float = 60) -> float:
    return time.time() + seconds


def segment(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def unsigned(claims: dict[str, Any], **header: Any) -> str:
    parts = ({"alg": "none", "typ": "JWT", **header}, claims)
    return ".".join([*(segment(json.dumps(part).encode()) for part in parts), ""])


async def status(edge: Edge, headers: dict[str, Any]) -> int:
    answer = await edge.http.get("/v1/devices", headers=headers)
    if answer.status_code == 401:
        assert answer.json()["code"] == "unauthenticated"
        assert answer.headers["www-authenticate"].startswith('Bearer realm="tocsin"')
    return answer.status_code


async def test_a_good_token_is_taken(edge: Edge) -> None:
    assert await status(edge, person("ada")) == 200


async def test_a_numeric_subject_is_the_same_person_as_its_text(edge: Edge) -> None:
    registered = await edge.http.post(
        "/v1/devices/register", json={"token": "t1", "platform": "web"}, headers=person(42)
    )

    assert registered.json()["user_id"] == "42"
    assert len((await edge.http.get("/v1/devices", headers=person("42"))).json()["devices"]) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic YWRhOnB3"},
        {"Authorization": "Bearer"},
        bearer("nonsense"),
        bearer("x" * 9000),
        bearer(unsigned({"sub": "ada", "exp": 9_999_999_999})),
        signed({"sub": "ada", "exp": 9_999_999_999}, "another secret of at least 32 bytes!"),
        signed({"sub": "ada", "exp": 1_000_000_000}),
        signed({"sub": "ada"}),
        signed({"exp": 9_999_999_999}),
        signed({"sub": "", "exp": 9_999_999_999}),
        signed({"sub": True, "exp": 9_999_999_999}),
        signed({"sub": ["ada"], "exp": 9_999_999_999}),
        signed({"sub": "a\x00b", "exp": 9_999_999_999}),
        signed({"sub": "ada", "exp": 9_999_999_999, "nbf": 9_999_999_000}),
        signed({"sub": "ada", "exp": 9_999_999_999}, SECRET * 2, "HS512"),
        signed({"sub": "ada", "exp": "soon"}),
        signed({"sub": "ada", "exp": float("inf")}),
        bearer(f"{segment(b'[' * 5_000)}.e30.e30"),
        bearer(unsigned({"sub": "ada"}, alg="HS256", kid=[])),
        bearer(unsigned({"sub": "ada"}, alg=["HS256"])),
        {"Authorization": b"Bearer \xff\xfe.\xff.\xff"},
    ],
    ids=[
        "absent",
        "basic",
        "empty",
        "nonsense",
        "too long",
        "alg none",
        "wrong secret",
        "expired",
        "no expiry",
        "no subject",
        "empty subject",
        "boolean subject",
        "list subject",
        "control character",
        "not yet valid",
        "other algorithm",
        "expiry as text",
        "expiry without end",
        "deep header",
        "list as key id",
        "list as algorithm",
        "not ascii",
    ],
)
async def test_a_bad_token_is_refused(edge: Edge, headers: dict[str, Any]) -> None:
    assert await status(edge, headers) == 401


async def test_an_api_key_is_no_person(edge: Edge) -> None:
    assert await status(edge, await edge.key(Role.ADMIN)) == 401


async def test_a_person_is_no_key_holder(edge: Edge) -> None:
    answer = await edge.http.get("/v1/notifications", headers=person("ada"))

    assert answer.status_code == 401


async def test_issuer_audience_and_claim_are_checked_where_they_are_set(pool: Pool) -> None:
    auth = AuthSettings(jwt_secret=SECRET, issuer="https://id.example", audience="app", user_claim="uid")
    async with running(services(pool, auth=auth)) as edge:
        good = {"uid": "ada", "iss": "https://id.example", "aud": "app", "exp": later()}

        assert await status(edge, signed(good)) == 200
        for name, wrong in (("iss", "https://evil.example"), ("aud", "other"), ("uid", "")):
            assert await status(edge, signed({**good, name: wrong})) == 401
            assert await status(edge, signed({k: v for k, v in good.items() if k != name})) == 401


async def test_an_audience_is_ignored_where_none_is_set(edge: Edge) -> None:
    assert await status(edge, person("ada", aud="somebody")) == 200


async def test_leeway_forgives_a_slow_clock(pool: Pool) -> None:
    expired = person("ada", exp=later(-20))
    async with running(services(pool)) as edge:
        assert await status(edge, expired) == 200
    strict = AuthSettings(jwt_secret=SECRET, leeway_seconds=0)
    async with running(services(pool, auth=strict)) as edge:
        assert await status(edge, expired) == 401


async def test_two_secrets_are_accepted_while_one_replaces_the_other(pool: Pool) -> None:
    old, other = "the secret that was used before, 32 bytes", "a secret that nobody has ever used before"
    rotating = AuthSettings(jwt_secret=SECRET, jwt_secret_previous=old)
    async with running(services(pool, auth=rotating)) as edge:
        for secret, expected in ((SECRET, 200), (old, 200), (other, 401)):
            assert await status(edge, signed({"sub": "ada", "exp": later()}, secret)) == expected
        assert await status(edge, signed({"sub": "ada", "exp": later(-60)}, old)) == 401
        refused = await edge.http.get("/v1/devices", headers=signed({"sub": "ada", "exp": 1}, old))
        assert refused.json()["detail"] == "The token has expired."


async def test_without_settings_nobody_is_known(pool: Pool) -> None:
    async with running(services(pool, auth=AuthSettings())) as edge:
        assert await status(edge, person("ada")) == 401


def test_settings_faults_are_named() -> None:
    settings = AuthSettings(jwt_secret="short", jwks_url="ftp://x")

    assert [fault.field for fault in auth_settings_faults(settings)] == ["auth.jwt_secret", "auth.jwks_url"]
    assert list(auth_settings_faults(AuthSettings(jwt_secret=SECRET))) == []
    lone = list(auth_settings_faults(AuthSettings(jwt_secret_previous="short")))
    assert [(fault.field, fault.code) for fault in lone] == [
        ("auth.jwt_secret_previous", "too_short"),
        ("auth.jwt_secret_previous", "alone"),
    ]


def test_a_value_out_of_bounds_is_named() -> None:
    wrong = {"USER_CLAIM": "", "LEEWAY_SECONDS": "-1", "JWKS_TIMEOUT_SECONDS": "0"}

    with pytest.raises(SettingsError) as caught:
        load_settings({f"TOCSIN_AUTH__{name}": value for name, value in wrong.items()})

    assert {fault.field: fault.message for fault in caught.value.faults} == {
        "auth.user_claim (TOCSIN_AUTH__USER_CLAIM)": "Expected str of length >= 1",
        "auth.leeway_seconds (TOCSIN_AUTH__LEEWAY_SECONDS)": "Expected int >= 0",
        "auth.jwks_timeout_seconds (TOCSIN_AUTH__JWKS_TIMEOUT_SECONDS)": "Expected float > 0.0",
    }


def test_the_secret_does_not_show() -> None:
    assert SECRET not in repr(AuthSettings(jwt_secret=SECRET, jwt_secret_previous=SECRET))
