"""One running system for all tests of a session; each test has players and entries of its own."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.acceptance.telemetry.collector import Collector, collecting
from tests.blackbox.galaxy.rig.mail_sink import MailSink, running_sink
from tests.blackbox.galaxy.rig.system import CATALOG, PASSWORD, Notifications, intent, running_notifications
from tests.databases import fresh_database
from tests.edges.command_line import run
from tests.edges.edge import SECRET
from tests.ingress.directory.services import UserService, running_service
from tests.redis_servers import RedisServer, running_redis

ADMINISTRATORS = {
    "GEO_REVIEW_RECOMMENDED": "geo@example.org",
    "GAME_GENERATION_FAILED": "games@example.org, Night.Shift@EXAMPLE.org",
    "LOBBY_RUNTIME_PAUSED_AFTER_START": "lobby@example.org",
    "LOBBY_APPLICATION_SUBMITTED": "public@example.org",
}


@pytest.fixture(scope="package")
async def redis_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RedisServer]:
    async with running_redis(tmp_path_factory.mktemp("redis"), PASSWORD) as server:
        yield server


@pytest.fixture(scope="package")
async def users() -> AsyncIterator[UserService]:
    async with running_service() as service:
        yield service


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(scope="package")
async def galaxy(
    server_url: str,
    redis_server: RedisServer,
    users: UserService,
    collector: Collector,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Notifications]:
    """Run the notification service with the defaults of the document."""
    variables = {
        **{f"NOTIFICATION_ADMIN_EMAILS_{name}": emails for name, emails in ADMINISTRATORS.items()},
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{collector.url}/v1/metrics",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
    }
    folder = tmp_path_factory.mktemp("galaxy")
    async with (
        fresh_database(server_url) as database_url,
        running_notifications(redis_server, users, database_url, folder, variables) as running,
    ):
        yield running


@pytest.fixture(scope="package")
async def redis_in_trouble(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RedisServer]:
    async with running_redis(tmp_path_factory.mktemp("redis-in-trouble"), PASSWORD) as server:
        yield server


@pytest.fixture(scope="package")
async def troubled(
    server_url: str,
    users: UserService,
    redis_in_trouble: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Notifications]:
    """Run a notification service for tests that break something: with a Redis of its own, and impatient.

    No administrators are set, and two intents were there before it started for the first time. Its catalog
    allows turn numbers that are texts, which its tables do not.
    """
    variables = {
        "NOTIFICATION_INTENTS_STREAM": "troubled:intents",
        "NOTIFICATION_GATEWAY_CLIENT_EVENTS_STREAM": "troubled:events",
        "NOTIFICATION_MAIL_DELIVERY_COMMANDS_STREAM": "troubled:mails",
        "NOTIFICATION_INTENTS_READ_BLOCK_TIMEOUT": "500ms",
        "NOTIFICATION_ROUTE_BACKOFF_MIN": "200ms",
        "NOTIFICATION_ROUTE_BACKOFF_MAX": "500ms",
        "NOTIFICATION_REDIS_OPERATION_TIMEOUT": "500ms",
        "NOTIFICATION_ROUTE_LEASE_TTL": "2s",
        "TOCSIN_DISPATCH__POLL_SECONDS": "0.05",
    }
    users.people["early"] = {"email": "early@example.org", "preferred_language": "en"}
    before = [intent("game.finished", "early", idempotency_key=f"early-{number}") for number in range(2)]
    folder = tmp_path_factory.mktemp("troubled")
    for part in ("catalog", "tables"):
        shutil.copytree(CATALOG.parent / part, folder / part)
    types = folder / "catalog" / "types" / "game.yaml"
    number = f"type: integer, minimum: 0, maximum: {2**53 - 1}"
    types.write_text(types.read_text().replace(number, "type: [integer, string]"))
    variables["TOCSIN_CATALOG"] = str(folder / "catalog")
    async with (
        fresh_database(server_url) as database_url,
        running_notifications(
            redis_in_trouble, users, database_url, folder, variables, before=before
        ) as running,
    ):
        yield running


@pytest.fixture(scope="package")
async def gateway(galaxy: Notifications, redis_server: RedisServer) -> str:
    """Run the gateway beside the service and return its address."""
    environment = {
        "TOCSIN_REDIS__URL": redis_server.url,
        "TOCSIN_AUTH__JWT_SECRET": SECRET,
        "TOCSIN_GATEWAY__PORT": "0",
    }
    process = await galaxy.processes.start("gateway", environment=environment)
    return str((await process.logged("gateway started"))["address"])


@pytest.fixture(scope="package")
async def mail_sink(
    galaxy: Notifications, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[MailSink]:
    """Run the mailer beside the service, and the mail server that it sends to."""
    async with running_sink() as sink:
        environment = {
            "TOCSIN_DATABASE_URL": galaxy.environment["NOTIFICATION_POSTGRES_PRIMARY_DSN"],
            "TOCSIN_SCHEMA": "mailer",
            "TOCSIN_CATALOG": str(CATALOG),
            "TOCSIN_REDIS__URL": redis_server.url,
            "TOCSIN_SMTP__HOST": "127.0.0.1",
            "TOCSIN_SMTP__PORT": str(sink.port),
            "TOCSIN_SMTP__SECURITY": "none",
            "TOCSIN_SMTP__SENDER": "Galaxy <notify@galaxy.example>",
        }
        folder = tmp_path_factory.mktemp("mailer")
        migrated = await asyncio.to_thread(run, ("migrate",), environment, folder)
        assert migrated.code == 0, migrated.err
        process = await galaxy.processes.start("mailer", environment=environment)
        await process.logged("mailer started")
        yield sink
