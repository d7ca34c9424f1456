import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.providers.sandboxes import JWT_BEARER, Caller, assertion, calling
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.sandbox.fcm.accounts import Accounts
from tocsin.sandbox.fcm.oauth import TokenEndpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="module")
async def running(folder: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=folder, access_token_seconds=120)) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox, authorized=False) as ready:
        yield ready


async def test_a_signed_assertion_buys_an_access_token(sandbox: Sandbox, caller: Caller) -> None:
    reply = await caller.authorize(sandbox.service_account("shop", secure=False))

    assert reply.status == 200
    assert (reply.body["expires_in"], reply.body["token_type"]) == (120, "Bearer")
    assert (await caller.send({"token": "t"}, project="shop")).status == 200
    assert sandbox.stats().access_tokens_issued == 1


@pytest.mark.parametrize("audience", ["https://oauth2.googleapis.com/token", "{own}"])
async def test_the_assertion_may_be_meant_for_google_or_the_sandbox(
    sandbox: Sandbox, caller: Caller, audience: str
) -> None:
    account = sandbox.service_account(secure=False)

    assert (await caller.authorize(account, aud=audience.format(own=account.token_uri))).status == 200


@pytest.mark.parametrize(
    ("claims", "error", "text"),
    [
        ({"aud": "https://example.org"}, "invalid_grant", "Failed audience check"),
        ({"iat": 1_000_000, "exp": 1_003_600}, "invalid_grant", "short-lived token"),
        ({"exp": int(time.time()) + 90_000}, "invalid_grant", "short-lived token"),
        ({"iss": "robot@example.org"}, "invalid_grant", "account not found"),
        ({"scope": "mail"}, "invalid_scope", "Invalid OAuth scope"),
        ({"scope": ""}, "invalid_scope", "Invalid OAuth scope"),
    ],
)
async def test_a_wrong_claim_is_refused(
    sandbox: Sandbox, caller: Caller, claims: dict[str, Any], error: str, text: str
) -> None:
    reply = await caller.authorize(sandbox.service_account(secure=False), **claims)

    assert (reply.status, reply.body["error"]) == (400, error)
    assert text in reply.body["error_description"]


async def test_the_key_of_somebody_else_is_refused(sandbox: Sandbox, caller: Caller) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = msgspec.structs.replace(sandbox.service_account(secure=False), private_key=stranger.decode())

    reply = await caller.authorize(account)

    assert (reply.status, reply.body["error_description"]) == (400, "Invalid JWT Signature.")


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "unsupported_grant_type"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": JWT_BEARER}, "invalid_grant"),
        ({"grant_type": JWT_BEARER, "assertion": "a.b.c"}, "invalid_grant"),
    ],
)
async def test_a_malformed_request_is_refused(caller: Caller, form: dict[str, str], error: str) -> None:
    reply = await caller.call("POST", "/token", urlencode(form).encode())

    assert (reply.status, reply.body["error"]) == (400, error)


def test_an_access_token_ends_with_its_time(folder: Path) -> None:
    now = time.time()
    accounts = Accounts(folder)
    endpoint = TokenEndpoint(accounts, lifetime_seconds=60, clock=lambda: now)
    account = accounts.account("shop", "http://localhost/token")
    form = urlencode({"grant_type": JWT_BEARER, "assertion": assertion(account)}).encode()
    token = msgspec.json.decode(endpoint.grant(form, (account.token_uri,)).body)["access_token"]

    now += 59.9
    assert endpoint.access(f"Bearer {token}") is not None
    now += 0.1
    assert endpoint.access(f"Bearer {token}") is None


def test_a_service_account_does_not_show_its_key(folder: Path) -> None:
    account = Accounts(folder).account("shop", "http://localhost/token")

    assert "PRIVATE KEY" in account.private_key
    assert repr(account) == "ServiceAccount('tocsin-sandbox@shop.iam.gserviceaccount.com')"
