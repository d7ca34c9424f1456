from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.edges.edge import FREE_PORT, Edge, person, running, services
from tests.providers.sns.rig import platform_endpoints
from tocsin.engine.platform_endpoints import PlatformEndpoints
from tocsin.sandbox import Sandbox
from tocsin.sandbox.sns.endpoints import Endpoint
from tocsin.sandbox.sns.service import Sns
from tocsin.store.pool import Pool


class SnsEdge(msgspec.Struct, frozen=True):
    """The API before the stand-in for SNS, as the app of a person meets it."""

    edge: Edge
    sandbox: Sandbox
    endpoints: PlatformEndpoints

    @property
    def sns(self) -> Sns:
        return self.sandbox.sns

    @property
    def pool(self) -> Pool:
        return self.edge.pool

    async def register(self, user_id: str, token: str, platform: str = "android", **more: Any) -> Any:
        body = {"token": token, "platform": platform, "provider": "sns", **more}
        return await self.edge.http.post("/v1/devices/register", json=body, headers=person(user_id))

    async def unregister(self, user_id: str, **which: str) -> Any:
        return await self.edge.http.post("/v1/devices/unregister", json=which, headers=person(user_id))

    async def arn(self, user_id: str, token: str, platform: str = "android", **more: Any) -> str:
        answer = await self.register(user_id, token, platform, **more)
        assert answer.status_code == 200, answer.text
        arn: str = answer.json()["endpoint_arn"]
        return arn

    def endpoint(self, arn: str) -> Endpoint | None:
        return self.sns.endpoints.find(arn)

    async def active(self, user_id: str) -> list[Any]:
        answer = await self.edge.http.get("/v1/devices", headers=person(user_id))
        devices: list[Any] = answer.json()["devices"]
        return devices

    async def deletions(self) -> int:
        count: int = await self.pool.fetchval("select count(*) from endpoint_deletions")
        return count

    async def clean_up(self) -> None:
        """Delete at SNS what is due."""
        while await self.endpoints._delete_some():
            pass


@pytest.fixture(scope="session")
async def sns_sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def sns_edge(pool: Pool, sns_sandbox: Sandbox) -> AsyncIterator[SnsEdge]:
    sns_sandbox.reset()
    http = msgspec.structs.replace(FREE_PORT, fisa_paths=True)
    async with (
        platform_endpoints(pool, sns_sandbox) as registered,
        running(services(pool, platform_endpoints=registered, http=http)) as edge,
    ):
        yield SnsEdge(edge, sns_sandbox, registered)
