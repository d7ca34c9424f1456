"""`python -m examples.galaxy`: intents of fifteen types go in; events and mails come out, on a page too."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from redis.asyncio import Redis

from examples.demonstration import ExampleError, heading, run, say, until
from examples.galaxy.bodies import Bodies
from examples.galaxy.listener import Arrived, Listener
from examples.galaxy.platform import Platform, running_platform
from examples.galaxy.samples import PLAYERS, SAMPLES
from examples.galaxy.site import TYPE_OF, Site, expected, token_for
from examples.playground import Playground, playground
from tocsin.api.settings import HttpSettings
from tocsin.catalog.load import load_catalog
from tocsin.cli.run.probes import served_beside
from tocsin.client.streams import AsyncStreamProducer
from tocsin.logs import LogSettings, configure_logs
from tocsin.sandbox.appearance import appearance

CATALOG = Path(__file__).parent / "catalog"


async def example(*, stay: bool) -> None:
    """Start the platform, send an intent of each type, and check what comes of it."""
    configure_logs(LogSettings(level="warning"))
    bodies, arrived = Bodies(load_catalog(CATALOG)), list[Arrived]()
    async with playground() as town:
        site = Site(town.sandbox, bodies, lambda: publish(platform, site), jwt_secret=town.jwt_secret)
        page = served_beside(site.app(), HttpSettings(port=0), section="page")
        async with page as address, running_platform(town, address) as platform:
            site.gateway_url = platform.gateway_url
            say(f"The page is at {address}/")
            async with listening(town, platform.gateway_url, arrived):
                heading("An intent of each type")
                await publish(platform, site)
                await show(town, bodies, arrived)
            if stay:
                say(f"\nOpen {address}/ in a browser. Ctrl-C ends everything.")
                await asyncio.Event().wait()


async def publish(platform: Platform, site: Site) -> int:
    """Append an intent of each type, as the services of the platform do; return how many."""
    site.rounds += 1
    async with Redis.from_url(platform.redis_url) as redis:
        for number, sample in enumerate(SAMPLES):
            await AsyncStreamProducer(redis, sample.producer).append(
                sample.type,
                users=sample.users or None,
                payload=sample.payload,
                idempotency_key=f"{sample.type}:{number}:round-{site.rounds}",
                request_id=f"request-{site.rounds}-{number}",
            )
    return len(SAMPLES)


@asynccontextmanager
async def listening(town: Playground, gateway_url: str, arrived: list[Arrived]) -> AsyncIterator[None]:
    """Open a session of each player at the gateway."""
    listeners = [Listener(user, gateway_url, token_for(user, town.jwt_secret), arrived) for user in PLAYERS]
    running = [asyncio.create_task(each.run()) for each in listeners]
    try:
        async with asyncio.timeout(30):
            await asyncio.gather(*(each.connected.wait() for each in listeners))
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def show(town: Playground, bodies: Bodies, arrived: list[Arrived]) -> None:
    """Wait for everything, print what arrived of each type, and raise ExampleError if it is not right."""
    wanted = Counter((user, sample.type, str(sample.body)) for sample in SAMPLES for user in sample.pushed_to)
    letters = Counter((to, sample.subject) for sample in SAMPLES for to in sample.mailed_to)

    async def complete() -> bool:
        return events(bodies, arrived) >= wanted and mails(town) >= letters

    problem = None
    try:
        await until(complete, "every event and mail")
    except ExampleError as error:
        problem = error
    came = Counter(each.type for each in arrived)
    mailed = Counter(TYPE_OF.get(subject, "") for _, subject in mails(town).elements())
    say(f"  {'type':<39}events    mails")
    for row in expected():
        shown = [(came[row["type"]], row["events"]), (mailed[row["type"]], row["mails"])]
        columns = [f"{have} of {want}" if want or have else "-" for have, want in shown]
        say(f"  {row['type']:<39}{columns[0]:<10}{columns[1]}".rstrip())
    if problem or events(bodies, arrived) != wanted or mails(town) != letters:
        raise ExampleError(f"Not what was expected. {problem or 'Too much arrived.'}")


def events(bodies: Bodies, arrived: list[Arrived]) -> Counter[tuple[str, str, str]]:
    """Count the events by player, type and decoded body; a repeated one has the id of the first."""
    distinct = {each.event_id: each for each in arrived}
    return Counter(
        (each.user, each.type, str(bodies.decode(each.type, each.body))) for each in distinct.values()
    )


def mails(town: Playground) -> Counter[tuple[str, str]]:
    """Count the mails by address and subject."""
    found = town.sandbox.phones.messages(after=0, limit=1_000)
    return Counter((mail.target, appearance(mail).title) for mail in found if mail.provider == "smtp")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples.galaxy", description=__doc__)
    parser.add_argument(
        "--stay",
        action=argparse.BooleanOptionalAction,
        default=sys.stdout.isatty(),
        help="keep everything running for the page; the default on a terminal",
    )
    run(partial(example, stay=parser.parse_args().stay))
