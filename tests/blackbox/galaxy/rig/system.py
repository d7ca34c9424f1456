"""The galaxy system from outside: Redis, the notification service, its API, a user service."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from redis.asyncio import Redis

from tests.acceptance.processes import Process, Processes, free_port, processes_in
from tests.blackbox.galaxy.rig.document import TYPES
from tests.edges.command_line import run
from tests.edges.edge import SECRET
from tests.ingress.directory.services import UserService
from tests.redis_servers import RedisServer
from tests.waiting import found

CATALOG = Path(__file__).parents[4] / "examples" / "galaxy" / "catalog"
PASSWORD = "swordfish"


def service_command() -> tuple[str, ...]:
    """Return the command that runs the notification service."""
    return ("serve", "--profile", "galaxy")


class Replica(NamedTuple):
    """A process of the service, and the address of its probes."""

    process: Process
    probes: str


class Notifications:
    """One notification service, by its streams and its API."""

    def __init__(
        self,
        *,
        processes: Processes,
        redis: Redis,
        users: UserService,
        environment: Mapping[str, str],
        http: httpx.AsyncClient,
        key: Mapping[str, str],
        process: Process,
    ) -> None:
        self.processes = processes
        self.redis = redis
        self.users = users
        self.environment = environment
        self.http = http
        self.key = dict(key)
        self.process = process
        self.intents = environment["NOTIFICATION_INTENTS_STREAM"]
        self.client_events = environment["NOTIFICATION_GATEWAY_CLIENT_EVENTS_STREAM"]
        self.mail_commands = environment["NOTIFICATION_MAIL_DELIVERY_COMMANDS_STREAM"]
        self.probes = f"http://{environment['NOTIFICATION_INTERNAL_HTTP_ADDR']}"

    async def start_replica(self) -> Replica:
        """Start another process of the same service and wait until it is ready."""
        address = f"127.0.0.1:{free_port()}"
        environment = {**self.environment, "NOTIFICATION_INTERNAL_HTTP_ADDR": address}
        process = await self.processes.start(*service_command(), environment=environment)
        await process.logged("process tree started")
        return Replica(process, f"http://{address}")

    def use(self, replica: Replica) -> None:
        """Go on with a replica after the process before it has ended."""
        self.process, self.probes = replica

    def player(self, user_id: str = "", **fields: object) -> str:
        """Add a person to the user service and return the id."""
        user_id = user_id or f"u-{uuid.uuid4().hex[:12]}"
        default = {"email": f"{user_id}@example.org", "preferred_language": "en"}
        self.users.people[user_id] = default | fields
        return user_id

    async def append(self, type_name: str, *user_ids: str, **changes: str | None) -> str:
        """Append an intent, for users or else for the administrators, and return the id of its entry."""
        entry_id: Any = await self.redis.xadd(self.intents, intent(type_name, *user_ids, **changes))
        return str(entry_id.decode())

    async def shown(self, entry_id: str) -> dict[str, Any] | None:
        """Return a notification by the id of its entry, None if there is none."""
        answer = await self.http.get(f"/v1/notifications/{entry_id}", headers=self.key)
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        content: dict[str, Any] = answer.json()
        return content

    async def accepted(self, entry_id: str) -> dict[str, Any]:
        """Wait until an intent was accepted and return its notification."""

        async def look() -> dict[str, Any] | None:
            return await self.shown(entry_id)

        return await found(look)

    async def routes(self, entry_id: str, *statuses: str, within: float = 20) -> dict[str, dict[str, Any]]:
        """Wait until every route has one of the statuses, final ones if none is given; return them by id."""
        wanted = statuses or ("published", "skipped", "dead_letter")
        deliveries: list[dict[str, Any]] = []

        async def look() -> bool:
            nonlocal deliveries
            deliveries = (await self.shown(entry_id) or {}).get("deliveries", [])
            return bool(deliveries) and all(each["status"] in wanted for each in deliveries)

        try:
            await found(look, within=within)
        except TimeoutError:
            seen = {each["route_id"]: each["status"] for each in deliveries}
            raise AssertionError(f"{entry_id} has the routes {seen}, wanted {wanted}") from None
        return {each["route_id"]: each for each in deliveries}

    async def refusal(self, entry_id: str) -> dict[str, Any]:
        """Wait until an intent was refused and return what is kept of it."""

        async def look() -> dict[str, Any] | None:
            answer = await self.http.get("/v1/admin/refused", headers=self.key, params={"limit": 100})
            assert answer.status_code == 200, answer.text
            for refused in answer.json()["refused"]:
                content = json.loads(refused["content"])
                if content.get("stream_entry_id") == entry_id:
                    return {**refused, "fields": content["fields"]}
            return None

        return await found(look)

    async def events(self, entry_id: str) -> list[dict[str, bytes]]:
        """Return the entries of client events that a notification has made."""
        return await self._entries(self.client_events, "event_id", entry_id)

    async def commands(self, entry_id: str) -> list[dict[str, str]]:
        """Return the mail commands that a notification has made."""
        found_commands = await self._entries(self.mail_commands, "delivery_id", entry_id)
        return [{name: value.decode() for name, value in each.items()} for each in found_commands]

    async def _entries(self, stream: str, field: str, entry_id: str) -> list[dict[str, bytes]]:
        # They are appended after the intent, by the same clock.
        entries: Any = await self.redis.xrange(stream, min=entry_id)
        decoded = [{name.decode(): value for name, value in fields.items()} for _, fields in entries]
        return [each for each in decoded if each[field].startswith(f"{entry_id}/".encode())]

    async def dead_letters(self, entry_id: str) -> list[dict[str, Any]]:
        """Return the dead letters of a notification."""
        notification_id = (await self.accepted(entry_id))["notification_id"]
        answer = await self.http.get(
            "/v1/admin/dead-letters/export", headers=self.key, params={"notification_id": notification_id}
        )
        assert answer.status_code == 200, answer.text
        letters: list[dict[str, Any]] = answer.json()["dead_letters"]
        return letters


def intent(type_name: str, *user_ids: str, **changes: str | None) -> dict[Any, Any]:
    """Build the fields of an intent, of which some may be changed or, if None, left out."""
    type_ = TYPES.get(type_name, TYPES["game.finished"])
    fields: dict[str, str | None] = {
        "notification_type": type_name,
        "producer": type_.producer,
        "audience_kind": "user" if user_ids else "admin_email",
        "idempotency_key": uuid.uuid4().hex,
        "occurred_at_ms": "1767225600000",
        "payload_json": json.dumps(type_.payload),
        "recipient_user_ids_json": json.dumps(user_ids) if user_ids else None,
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


@contextlib.asynccontextmanager
async def running_notifications(
    server: RedisServer,
    users: UserService,
    database_url: str,
    folder: Path,
    variables: Mapping[str, str],
    *,
    before: Sequence[Mapping[Any, Any]] = (),
) -> AsyncIterator[Notifications]:
    """Run a notification service and its API on an empty database, with some intents there before."""
    environment = {
        "NOTIFICATION_REDIS_MASTER_ADDR": server.address,
        "NOTIFICATION_REDIS_PASSWORD": PASSWORD,
        "NOTIFICATION_POSTGRES_PRIMARY_DSN": database_url,
        "NOTIFICATION_USER_SERVICE_BASE_URL": users.url,
        "NOTIFICATION_INTERNAL_HTTP_ADDR": f"127.0.0.1:{free_port()}",
        "NOTIFICATION_INTENTS_STREAM": "notification:intents",
        "NOTIFICATION_GATEWAY_CLIENT_EVENTS_STREAM": "gateway:client-events",
        "NOTIFICATION_MAIL_DELIVERY_COMMANDS_STREAM": "mail:delivery_commands",
        "NOTIFICATION_LOG_LEVEL": "debug",
        "TOCSIN_CATALOG": str(CATALOG),
        **variables,
    }
    beside = {"TOCSIN_PROFILE": "galaxy", "TOCSIN_HTTP__PORT": "0", "TOCSIN_AUTH__JWT_SECRET": SECRET}
    async with processes_in(folder) as processes, Redis.from_url(server.url) as redis:
        for fields in before:
            await redis.xadd(environment["NOTIFICATION_INTENTS_STREAM"], dict(fields))
        process = await processes.start(*service_command(), environment=environment)
        await process.logged("process tree started")
        api = await processes.start("api", environment=environment | beside)
        create = ("keys", "create", "operations", "--role", "admin", "--json")
        created = await asyncio.to_thread(run, create, environment | beside, folder)
        assert created.code == 0, created.err
        key = {"Authorization": f"Bearer {created.json['key']}"}
        address = (await api.logged("api started"))["address"]
        async with httpx.AsyncClient(base_url=address, timeout=30) as http:
            yield Notifications(
                processes=processes,
                redis=redis,
                users=users,
                environment=environment,
                http=http,
                key=key,
                process=process,
            )
