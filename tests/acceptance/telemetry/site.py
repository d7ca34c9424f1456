"""A whole server of `tocsin serve` with every provider of a sandbox and an outbox, scraped on its port."""

import contextlib
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import asyncpg
import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.installation import Producer, intent
from tests.acceptance.processes import Process, free_port, processes_in
from tests.databases import SCHEMA
from tests.edges.edge import SECRET
from tests.engine.conftest import BY_SEVERAL, TEXTS_OF, add_type
from tests.ingress.outbox.outboxes import Shop
from tests.redis_servers import running_redis
from tests.waiting import found
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.catalog.load import shipped_catalog
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.engine.clock import utc_now
from tocsin.ingress.outbox.install import install
from tocsin.sandbox import Refuse, Sandbox, SandboxSettings
from tocsin.store.pool import Pool, PoolSettings, open_pool

PEOPLE: Mapping[str, tuple[str, dict[str, str]]] = {
    "ada": ("fcm-token-of-ada-5f3a", {"platform": "android"}),
    "kerem": (secrets.token_hex(32), {"platform": "ios", "provider": "apns"}),
    "mina": ("ExponentPushToken[of-mina-77c1]", {"platform": "android", "provider": "expo"}),
    "jisoo": ("", {"platform": "web", "provider": "webpush"}),
}
GONE, REJECTED = "fcm-token-gone-91b2", "fcm-token-rejected-0c4d"
EVERYWHERE = BY_SEVERAL.format(
    name="everywhere", channels="[push, email, webhook]", policies="{attempts: {webhook: 1}}"
)
MEMBERS = """
select id as user_id, id || '.secret@mail-of-' || id || '.example' as email, 'en' as preferred_language
from unnest($1::text[]) as id
"""
TEXTS = TEXTS_OF["push"] | TEXTS_OF["email"]


class Site:
    """The server, its database and sandbox, and what was sent through it."""

    def __init__(self, *, process: Process, pool: Pool, sandbox: Sandbox, http: Producer, port: int) -> None:
        self.process = process
        self.pool = pool
        self.sandbox = sandbox
        self.http = http
        self.address = f"http://127.0.0.1:{port}"
        self.secrets: set[str] = {GONE, REJECTED}

    async def scrape(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Return every sample by its name and labels."""
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self.address}/metrics", timeout=20)
        assert answer.status_code == 200, answer.text
        families = text_string_to_metric_families(answer.text)
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    async def value(self, name: str, **labels: str) -> float:
        """Add up the samples with a name and some labels."""
        return sum(
            value
            for (found_name, found_labels), value in (await self.scrape()).items()
            if found_name == name and labels.items() <= dict(found_labels).items()
        )

    async def reaches(self, least: float, name: str, **labels: str) -> float:
        """Wait until the samples with a name and some labels add up to a value."""

        async def look() -> float | None:
            value = await self.value(name, **labels)
            return value if value >= least else None

        return await found(look, within=30)

    async def settled(self) -> None:
        """Wait until nothing waits."""

        async def look() -> bool:
            waiting = "select count(*) from deliveries where settled_at is null and held_by is null"
            return bool(await self.pool.fetchval(waiting) == 0)

        await found(look, within=30)

    async def register_everybody(self) -> None:
        """Give each person a device, a mail address and, one of them, a webhook."""
        for user_id, (token, fields) in PEOPLE.items():
            subscription = msgspec.json.encode(self.sandbox.subscription(user_id)).decode()
            await self.http.register(user_id, token or subscription, **fields)
            email = f"{user_id}.secret@mail-of-{user_id}.example"
            body = {"email": email, "locale": "en"}
            answer = await self.http.http.put(f"/v1/users/{user_id}", headers=self.http.key, json=body)
            assert answer.status_code == 200, answer.text
            self.secrets |= {email, f"mail-of-{user_id}"}
            self.secrets.add(token or msgspec.json.decode(subscription)["endpoint"].rpartition("/")[2])
        for user_id, token in (("gone", GONE), ("rejected", REJECTED)):
            await self.http.register(user_id, token)
        for name in ("ada", "mina"):
            url = f"{self.sandbox.https_url}/webhook/hook-of-{name}-e1f0"
            answer = await self.http.http.post(
                f"/v1/users/{name}/webhooks", headers=self.http.key, json={"url": url}
            )
            assert answer.status_code == 201, answer.text
            self.secrets |= {url, f"hook-of-{name}-e1f0", answer.json()["secret"]}

    async def send_everything(self) -> list[str]:
        """Have every provider take a message and refuse some, and a producer make mistakes."""
        faults = self.sandbox.faults_of
        faults("webhook").script("hook-of-mina-e1f0", Refuse("HTTP_500"))
        faults("fcm").script(GONE, Refuse("UNREGISTERED"))
        faults("fcm").script(REJECTED, Refuse("INVALID_ARGUMENT"))
        sent = [
            await self.http.notify(*PEOPLE, type="everywhere", payload={}),
            await self.http.notify("gone", "rejected"),
        ]
        again = intent("ada")
        for _ in range(2):
            answer = await self.http.http.post("/v1/notifications", headers=self.http.key, json=again)
            assert answer.status_code == 202
        assert (await self.http.post("ada", payload={"customer_name": 7})).status_code == 422
        assert (await self.http.post("ada", type="nobody-has-this")).status_code == 422
        return sent


@contextlib.asynccontextmanager
async def running_site(database_url: str, shop_url: str, folder: Path, **more: str) -> AsyncIterator[Site]:
    """Run a server of every provider on a migrated database, with an outbox in another."""
    shutil.copytree(shipped_catalog(), folder / "catalog")
    add_type(folder / "catalog", "everywhere", EVERYWHERE, TEXTS)
    shop = await asyncpg.connect(shop_url)
    await install(shop, "public", "tocsin_outbox")
    async with (
        Sandbox(SandboxSettings(folder=folder / "sandbox")) as sandbox,
        running_redis(folder) as redis,
        open_pool(database_url, SCHEMA, PoolSettings(size=2)) as pool,
        processes_in(folder) as processes,
    ):
        port, metrics_port = free_port(), free_port()
        environment = {
            **settings_for(sandbox, folder),
            "TOCSIN_DATABASE_URL": database_url,
            "TOCSIN_CATALOG": str(folder / "catalog"),
            "TOCSIN_HTTP__PORT": str(port),
            "TOCSIN_METRICS__PORT": str(metrics_port),
            "TOCSIN_AUTH__JWT_SECRET": SECRET,
            "TOCSIN_QUIET_HOURS__ENABLED": "false",
            "TOCSIN_OUTBOXES__SHOP__URL": shop_url,
            "TOCSIN_REDIS__URL": redis.url,
            "TOCSIN_STREAMS__SHOP__STREAM": "shop:intents",
            "TOCSIN_DIRECTORY__KIND": "sql",
            "TOCSIN_DIRECTORY__URL": shop_url,
            "TOCSIN_DIRECTORY__QUERY": MEMBERS,
            "TOCSIN_LOG__LEVEL": "debug",
            **more,
        }
        process = await processes.start("serve", environment=environment)
        key = await create_key(pool, "shop", Role.ADMIN, utc_now())
        for event in ("metrics started", "api started", "worker started", "relay started"):
            await process.logged(event)
        await Shop(shop_url, shop).publish()
        await redis.append("shop:intents", key="of-a-stream")
        await shop.close()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            producer = Producer(process, http, key.secret)
            site = Site(process=process, pool=pool, sandbox=sandbox, http=producer, port=metrics_port)
            site.secrets.add(key.secret)
            yield site
