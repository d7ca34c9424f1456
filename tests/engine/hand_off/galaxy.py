"""The worker with the providers that hand off through Redis, on the catalog of the example."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from redis.asyncio import Redis

from tests.engine.stage import Stage
from tests.redis_servers import RedisServer
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.health.settings import HealthSettings
from tocsin.providers.gateway_stream.provider import GatewayStreamProvider
from tocsin.providers.gateway_stream.settings import GatewayStreamSettings
from tocsin.providers.mail_stream.provider import MailStreamProvider
from tocsin.providers.mail_stream.settings import MailStreamSettings

GALAXY = Path(__file__).parents[3] / "examples" / "galaxy"
EVENTS = "gateway:client-events"
COMMANDS = "mail:delivery_commands"
PROVIDERS = {"push": ["gateway_stream"], "email": ["mail_stream"]}
ADMIN = "ops@example.org"
TURN = {"game_id": "game-7", "game_name": "Nova", "turn_number": 12}


class Galaxy:
    """Intents in, entries of two streams out."""

    def __init__(self, stage: Stage, redis: Redis, server: RedisServer) -> None:
        self.stage = stage
        self.redis = redis
        self.server = server
        admins = {"game.generation_failed": [ADMIN]}
        self.stage.acceptor = stage.an_acceptor(PROVIDERS, admins)

    @asynccontextmanager
    async def working(self, health: HealthSettings | None = None) -> AsyncIterator[None]:
        """Run a worker with both providers."""
        gateway = GatewayStreamProvider(
            GatewayStreamSettings(enabled=True, url=self.server.url, tables=str(GALAXY / "tables"))
        )
        mail = MailStreamProvider(MailStreamSettings(enabled=True, url=self.server.url))
        try:
            async with self.stage.working(gateway, mail, health=health or HealthSettings()):
                yield
        finally:
            await gateway.aclose()
            await mail.aclose()

    async def person(self, user_id: str, locale: str = "en") -> None:
        await self.stage.pool.execute(
            "insert into users (user_id, email, locale, updated_at) values ($1, $2, $3, now())",
            user_id,
            f"{user_id}@example.org",
            locale,
        )

    async def accept(self, *users: str, key: str = "k", **changes: Any) -> UUID:
        fields: dict[str, Any] = {
            "type": "game.turn.ready",
            "audience": Audience(users=list(users)),
            "payload": TURN,
            "idempotency_key": key,
            "request_id": "request-1",
            "trace_id": "trace-1",
        }
        (answer,) = await self.stage.acceptor.accept("game_master", [Intent(**fields | changes)])
        assert isinstance(answer, Accepted)
        return answer.notification_id

    async def by_channel(self, notification_id: UUID) -> dict[str, dict[str, Any]]:
        return {row["channel"]: row for row in await self.stage.deliveries(notification_id)}

    async def entries(self, stream: str) -> list[Mapping[str, bytes]]:
        async with Redis.from_url(self.server.url) as redis:
            found: Any = await redis.xrange(stream)
        return [{name.decode(): value for name, value in fields.items()} for _, fields in found]
