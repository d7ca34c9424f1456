"""The API and a worker with SNS, from the settings alone, and with tokens encrypted."""

import asyncio
import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest

from tests.edges.edge import SECRET, listening, person
from tests.providers.sns.rig import APNS, GCM, SnsRig
from tests.waiting import found, until
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.client import AsyncTocsin
from tocsin.compose.api import open_api
from tocsin.compose.catalog import read_catalog
from tocsin.compose.platform_endpoints import open_platform_endpoints
from tocsin.compose.worker import open_worker
from tocsin.domain.errors import ProviderSetupError
from tocsin.engine.clock import utc_now
from tocsin.engine.data_keys import rotate_data
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys

KEY = b"k" * 32


def settings_for(rig: SnsRig) -> Settings:
    environ = {
        "TOCSIN_SNS__GCM_APP_ARN": GCM,
        "TOCSIN_SNS__APNS_APP_ARN": APNS,
        "TOCSIN_SNS__BASE_URL": rig.sandbox.https_url,
        "TOCSIN_SNS__CA_FILE": str(rig.sandbox.ca_file),
        "TOCSIN_AWS__ACCESS_KEY_ID": "sandbox",
        "TOCSIN_AWS__SECRET_ACCESS_KEY": "sandbox",
        "TOCSIN_HTTP__FISA_PATHS": "true",
        "TOCSIN_DATA__KEY": base64.b64encode(KEY).decode(),
        "TOCSIN_AUTH__JWT_SECRET": SECRET,
        "TOCSIN_QUIET_HOURS__ENABLED": "false",
        "TOCSIN_DISPATCH__POLL_SECONDS": "0.02",
    }
    return load_settings(environ, Path("/dev/null"))


@asynccontextmanager
async def serving(rig: SnsRig, database_url: str) -> AsyncIterator[str]:
    settings = settings_for(rig)
    stop = asyncio.Event()
    async with (
        open_api(settings, database_url) as app,
        listening(app, msgspec.structs.replace(settings.http, port=0)) as url,
        open_worker(settings, database_url, read_catalog(settings)) as worker,
    ):
        working = asyncio.create_task(worker.run(stop))
        try:
            yield url
        finally:
            stop.set()
            await working


async def test_a_device_is_registered_reached_disabled_enabled_and_deleted(
    rig: SnsRig, database_url: str, pool: Pool
) -> None:
    key = await create_key(pool, "fisa", Role.ADMIN, utc_now())
    token = person("ada")["Authorization"].removeprefix("Bearer ")
    async with serving(rig, database_url) as url, AsyncTocsin(url, key.secret) as client:
        app = client.for_user(token)

        async def state_of(number: int) -> Any:
            sent = await client.send(
                "new_customer",
                users=["ada"],
                payload={"customer_name": "Grace"},
                idempotency_key=f"k{number}",
            )

            async def settled() -> Any:
                (delivery,) = (await client.show(sent.notification_id)).deliveries
                return delivery if delivery.state not in {"scheduled", "pending", "retrying"} else None

            return await found(settled)

        device = await app.register_device("t1", "android", provider="sns")
        arn = device.endpoint_arn
        assert arn
        assert (await state_of(1)).state == "sent"
        (arrived,) = rig.arrivals
        assert arrived.target == arn
        (stored,) = await pool.fetch("select token, push_token_hash from devices")
        assert stored["token"].startswith("sealed:")

        rig.sandbox.phones.unregister(arn)
        assert (await state_of(2)).state == "gone"
        (retired,) = await app.devices(include_retired=True)
        assert retired.retired_reason == "gone: EndpointDisabled"

        rig.sandbox.phones.register(arn)
        again = await app.register_device("t1", "android", provider="sns")
        assert (again.device_id, again.endpoint_arn) == (device.device_id, arn)
        assert (await state_of(3)).state == "sent"

        await app.unregister_device(endpoint_arn=arn)
        await until(lambda: rig.sns.endpoints.find(arn) is None)
        assert await app.devices() == []


async def test_fisa_s_smoke_plan_begins_with_an_endpoint_for_each_platform(
    rig: SnsRig, database_url: str
) -> None:
    bodies = (
        {"platform": "android", "fcm_token": "t1"},
        {"platform": "ios", "apns_token": "00fc13adff785122"},
    )
    async with serving(rig, database_url) as url, httpx.AsyncClient(base_url=url, timeout=20) as http:
        answers = [
            await http.post("/api/v1/notifications/devices/register", json=body, headers=person("ada"))
            for body in bodies
        ]

    arns = [answer.json()["endpoint_arn"] for answer in answers]
    services = [endpoint.service for arn in arns if (endpoint := rig.sns.endpoints.find(arn))]
    assert services == ["GCM", "APNS"]


async def test_a_data_key_is_not_forgotten_while_an_endpoint_waits_to_be_deleted(
    rig: SnsRig, pool: Pool
) -> None:
    old, new = DataKeys(KEY), DataKeys(b"n" * 32, [KEY])
    async with open_platform_endpoints(settings_for(rig), pool, utc_now, new) as endpoints:
        assert endpoints
        row, arn = uuid4(), rig.endpoint("t1")
        await pool.execute(
            "insert into endpoint_deletions values ($1, $2, $3, null, now(), now())",
            b"hash",
            row,
            old.seal(arn, row, "token"),
        )
        before = await rotate_data(pool, new, actor="test", progress=lambda _: None)
        await endpoints._delete_some()
        after = await rotate_data(pool, new, actor="test", progress=lambda _: None)

    assert (before.left, after.left) == (1, 0)
    assert rig.sns.endpoints.find(arn) is None


async def test_without_the_extra_the_start_says_what_to_install(
    rig: SnsRig, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tocsin.providers.sns.endpoints", raising=False)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)

    with pytest.raises(ProviderSetupError, match=r"tocsin\[aws\]"):
        async with open_platform_endpoints(settings_for(rig), pool, utc_now, NO_KEYS):
            pass
