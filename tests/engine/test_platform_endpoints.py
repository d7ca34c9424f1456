"""Whatever happens to devices of SNS, in whatever order: SNS and the database agree in the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.providers.sns.rig import AWS, GCM
from tocsin.domain.people.devices import DeviceSettings, token_hash
from tocsin.engine.clock import utc_now
from tocsin.engine.platform_endpoints import PlatformEndpoints
from tocsin.engine.retention.erase import Eraser
from tocsin.providers.sns.endpoints import SnsEndpoints
from tocsin.providers.sns.errors import SnsUnavailableError
from tocsin.providers.sns.settings import SnsSettings
from tocsin.sandbox import Refuse, Sandbox
from tocsin.sandbox.sns.service import call_about
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, Registered, RegistrationResult
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import DataKeys

RULES = DeviceSettings(max_active=2, registrations_per_hour=100_000)
KEYS = DataKeys(b"k" * 32)
TOKENS = ("t0", "t1", "t2")
USERS = ("ada", "bob")

Kind = Literal["register", "replace", "fail", "unregister", "erase", "disable", "delete", "clean_up"]
STEPS = st.lists(
    st.tuples(st.sampled_from(Kind.__args__), st.sampled_from(USERS), st.sampled_from(TOKENS)),  # type: ignore[attr-defined]
    min_size=4,
    max_size=14,
)


class Life:
    """One database and one SNS, and all that may happen to them."""

    def __init__(self, pool: Pool, sandbox: Sandbox, endpoints: PlatformEndpoints) -> None:
        self.pool = pool
        self.sns = sandbox.sns
        self.endpoints = endpoints

    async def begin(self) -> None:
        await self.pool.execute("truncate devices, endpoint_deletions, registration_rates, erasures")
        self.sns.reset()

    async def register(self, user: str, token: str, replaces: str | None = None) -> RegistrationResult:
        wanted = DeviceRegistration(
            user_id=user, token=token, platform="android", provider="sns", replaces_token=replaces
        )
        _, result = await self.endpoints.register(wanted, GCM, RULES, utc_now())
        return result

    async def step(self, kind: Kind, user: str, token: str) -> None:
        match kind:
            case "register":
                assert isinstance(await self.register(user, token), Registered)
            case "replace":
                following = TOKENS[(TOKENS.index(token) + 1) % len(TOKENS)]
                assert isinstance(await self.register(user, following, token), Registered)
            case "fail":
                await self.fail(user, token)
            case "unregister":
                await devices.unregister(self.pool, user, token=token, now=utc_now())
            case "erase":
                await Eraser(self.pool, None, utc_now).erase(user, "test")
            case "disable" | "delete":
                await self.change_at_sns(token, kind)
            case "clean_up":
                await self.clean_up()

    async def fail(self, user: str, token: str) -> None:
        """Register while SNS creates no endpoint; one that exists already does not need it."""
        target = call_about("CreatePlatformEndpoint", token)
        self.sns.faults.script(target, Refuse("InternalError"))
        with suppress(SnsUnavailableError):
            await self.register(user, token)
        self.sns.faults.unscript(target)

    async def change_at_sns(self, token: str, kind: Literal["disable", "delete"]) -> None:
        rows = await self.pool.fetch(
            "select id, token from devices where push_token_hash = $1", token_hash(token)
        )
        for arn in [KEYS.open(row["token"], row["id"], "token") for row in rows]:
            if kind == "delete":
                self.sns.endpoints.delete(arn)
            elif endpoint := self.sns.endpoints.find(arn):
                endpoint.enabled = False

    async def clean_up(self) -> None:
        past = utc_now() - timedelta(seconds=1)
        await self.pool.execute("update endpoint_deletions set due_at = $1, leased_until = null", past)
        while await self.endpoints._delete_some():
            pass

    async def active(self) -> list[tuple[str, str, str]]:
        """List the owner, the token and the endpoint of each active device."""
        names = {token_hash(token): token for token in TOKENS}
        rows = await self.pool.fetch("select * from devices where retired_at is null")
        return [
            (row["user_id"], names[row["push_token_hash"]], KEYS.open(row["token"], row["id"], "token"))
            for row in rows
        ]

    async def check(self) -> None:
        """Let every app start once more and everything due be deleted; then all must be as it should."""
        before = await self.active()
        assert len({token for _, token, _ in before}) == len(before)
        for user, token, _ in before:
            assert isinstance(await self.register(user, token), Registered)
        await self.clean_up()
        active = await self.active()
        assert len({token for _, token, _ in active}) == len(active)
        for user, token, arn in active:
            endpoint = self.sns.endpoints.find(arn)
            assert endpoint
            assert (endpoint.enabled, endpoint.token) == (True, token)
            assert endpoint.user_data == user
        assert await self.pool.fetchval("select count(*) from endpoint_deletions") == 0
        known = {row["token_hash"] for row in await self.pool.fetch("select token_hash from devices")}
        left = [arn for arn in self.sns.endpoints._endpoints if token_hash(arn) not in known]
        assert left == []


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as opened:
        yield opened


@pytest.fixture
async def life(pool: Pool, sandbox: Sandbox) -> AsyncIterator[Life]:
    sns = SnsEndpoints(SnsSettings(gcm_app_arn=GCM, base_url=sandbox.http_url), AWS)
    yield Life(pool, sandbox, PlatformEndpoints(pool, sns, utc_now, KEYS))
    await sns.aclose()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
@example(steps=[("register", "ada", "t0"), ("delete", "ada", "t0"), ("register", "bob", "t0")])
@example(steps=[("register", "ada", "t0"), ("unregister", "ada", "t0"), ("fail", "ada", "t0")])
async def test_sns_and_the_database_agree_after_any_steps(
    life: Life, steps: list[tuple[Kind, str, str]]
) -> None:
    await life.begin()
    for kind, user, token in steps:
        await life.step(kind, user, token)

    await life.check()


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moves=st.lists(
        st.tuples(st.sampled_from(USERS), st.sampled_from(TOKENS), st.sampled_from([None, *TOKENS])),
        min_size=10,
        max_size=10,
    )
)
async def test_tokens_that_change_hands_at_once_have_one_device_each(
    life: Life, moves: list[tuple[str, str, str | None]]
) -> None:
    await life.begin()

    results = await asyncio.gather(*(life.register(*move) for move in moves), return_exceptions=True)

    # One endpoint that several change at once may be given up; its app registers again later.
    assert all(isinstance(each, Registered | SnsUnavailableError) for each in results)
    await life.check()
