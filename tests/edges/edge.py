"""The HTTP edge as a caller meets it: a real socket before a real database."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx
import jwt
import msgspec
from litestar import Litestar
from litestar.types import ASGIApp

from tests.catalogs import shipped
from tests.databases import SCHEMA
from tocsin.api.app import create_app
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.api.server import serve_api
from tocsin.api.services import Services
from tocsin.api.settings import AuthSettings, HttpSettings
from tocsin.domain.limits import LimitsSettings
from tocsin.domain.people.device_tokens import DeviceRules
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.planner import Planner
from tocsin.engine.clock import utc_now
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.inspect.explain import Explainer
from tocsin.engine.toggles.toggles import Toggles
from tocsin.providers.registry import device_rules, load_registry
from tocsin.store.pool import Pool

SECRET = "a secret of at least thirty-two bytes"
COOKIE_SUFFIX = "0a1b2c3d"
# Each client would read all the certificate authorities there are, though it never speaks TLS.
_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
FREE_PORT = HttpSettings(port=0, max_body_bytes=200_000)


class Edge(msgspec.Struct, frozen=True):
    """A running server and what a test needs around it."""

    http: httpx.AsyncClient
    pool: Pool

    async def key(self, role: Role, producer: str = "billing", org_id: str | None = None) -> dict[str, str]:
        """Create an API key and return the headers that send it."""
        made = await create_key(self.pool, producer, role, utc_now(), org_id=org_id)
        return {"Authorization": f"Bearer {made.secret}"}


def person(user_id: str | int, **claims: Any) -> dict[str, str]:
    """Return the headers of a person's app."""
    token = jwt.encode({"sub": user_id, "exp": time.time() + 60, **claims}, SECRET, algorithm="HS256")
    return {"Authorization": f"Bearer {token}"}


@cache
def _device_rules() -> Mapping[str, DeviceRules]:
    return device_rules(load_registry())


def services(pool: Pool, **changes: Any) -> Services:
    catalog, toggles = shipped(), Toggles()
    planner = Planner(catalog, {"push": ("fcm",)}, {}, toggles)
    rules = DeliveryRules(
        catalog=catalog,
        providers=frozenset({"fcm"}),
        toggles=toggles,
        quiet=QuietHours.compile(QuietHoursSettings(default_timezone="UTC")),
        limits=LimitsSettings(),
    )
    parts = Services(
        pool=pool,
        acceptor=Acceptor(pool, planner, utc_now),
        explainer=Explainer(planner, rules),
        clock=utc_now,
        schema=SCHEMA,
        cookie_suffix=COOKIE_SUFFIX,
        device_rules=_device_rules(),
        auth=AuthSettings(jwt_secret=SECRET),
        http=FREE_PORT,
    )
    return msgspec.structs.replace(parts, **changes)


@asynccontextmanager
async def listening(
    app: ASGIApp, settings: HttpSettings = FREE_PORT, *, websockets: bool = False
) -> AsyncIterator[str]:
    """Serve an app on a free port and yield its address."""
    stop = asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def end_streams() -> None:
        if isinstance(app, Litestar) and "dashboard_live" in app.state:
            app.state.dashboard_live.close()

    serving = asyncio.create_task(
        serve_api(app, settings, stop, ready.set_result, websockets=websockets, on_stop=end_streams)
    )
    serving.add_done_callback(lambda _: ready.cancel())
    try:
        yield await ready
    finally:
        stop.set()
        await serving


@asynccontextmanager
async def running(parts: Services) -> AsyncIterator[Edge]:
    """Serve the whole edge."""
    async with (
        listening(create_app(parts), parts.http) as url,
        httpx.AsyncClient(base_url=url, timeout=20, verify=_NO_AUTHORITIES) as http,
    ):
        yield Edge(http, parts.pool)


def faults(answer: httpx.Response) -> dict[str, str]:
    """Return the faults of an answer: field to code."""
    return {error["field"]: error["code"] for error in answer.json()["errors"]}
