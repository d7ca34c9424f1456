"""Signing in at an issuer as a browser does, step by step."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from tests.edges.api.dashboard.oidc.issuer import CLIENT_ID, CLIENT_SECRET, Issuer
from tests.edges.edge import Edge, running, services
from tocsin.api.auth.oidc.settings import OidcSettings
from tocsin.api.settings import DashboardSettings
from tocsin.store.pool import Pool

START = "/dashboard/oidc/start"
CALLBACK = "/dashboard/oidc/callback"
PUBLIC = "http://localhost:8470"
NOW = "/dashboard/now"


def oidc_settings(issuer_url: str, **changes: Any) -> OidcSettings:
    given = {
        "issuer": issuer_url,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "viewers": ["staff"],
        "operators": ["ops"],
        "admins": ["root", "super users"],
        "timeout_seconds": 2.0,
    }
    return OidcSettings(**{**given, **changes})


@asynccontextmanager
async def edge_of(
    pool: Pool, issuer_url: str, *, public_url: str = PUBLIC, parts: dict[str, Any] | None = None, **oidc: Any
) -> AsyncIterator[Edge]:
    """Serve a dashboard whose people sign in at an issuer."""
    dashboard = DashboardSettings(public_url=public_url)
    settings = oidc_settings(issuer_url, **oidc)
    async with running(services(pool, dashboard=dashboard, oidc=settings, **(parts or {}))) as edge:
        yield edge


async def begin(edge: Edge, **query: str) -> str:
    """Begin a sign-in, and return where the browser is led."""
    answer = await edge.http.get(START, params=query)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def consent(location: str) -> str:
    """Sign in at the issuer, and return the path that it leads back to."""
    async with httpx.AsyncClient() as browser:
        answer = await browser.get(location)
    assert answer.status_code == 302, answer.text
    back = urlsplit(answer.headers["location"])
    assert f"{back.scheme}://{back.netloc}{back.path}" == PUBLIC + CALLBACK
    return f"{back.path}?{back.query}"


def changed(path: str, **parameters: str | None) -> str:
    """Return a path with other parameters; None leaves one out."""
    parts = urlsplit(path)
    query = {**dict(parse_qsl(parts.query)), **parameters}
    kept = {name: value for name, value in query.items() if value is not None}
    return f"{parts.path}?{urlencode(kept)}"


async def sign_in(edge: Edge, **query: str) -> httpx.Response:
    """Sign in, and return the page that the issuer leads back to."""
    return await edge.http.get(await consent(await begin(edge, **query)))


async def is_signed_in(edge: Edge) -> bool:
    return (await edge.http.get(NOW)).status_code == 200


async def actions(edge: Edge) -> list[tuple[str, str, str]]:
    rows = await edge.pool.fetch("select action, subject, actor from audit order by id")
    return [(row["action"], row["subject"], row["actor"]) for row in rows]


def spent(issuer: Issuer) -> int:
    """Count the codes that were exchanged."""
    return len(issuer.token_requests)
