"""`python -m examples.fisa`: from an outbox by a topic and a function to phones, in order, and archived."""

import sys
from pathlib import Path
from typing import Any

import asyncpg
import duckdb
import msgspec
from pyreqwest.client import ClientBuilder

from examples.demonstration import ExampleError, heading, run, say, until
from examples.fisa.cloud import ANDROID, IOS, REGION, Cloud, running_cloud
from examples.fisa.office import add_comment
from examples.playground import Playground, Receiver, playground
from tocsin.api.auth.roles import Role

HERE = Path(__file__).parent
DEVICES = "/api/v1/notifications/devices"
ADA, BO, BO_LATER = "ada-android-token", "b0" * 32, "b1" * 32
IN_A_ROW = 10
ARCHIVED = """
select count(distinct message_id), count(distinct envelope.event_id)
from read_json_auto('{folder}/**/*.ndjson.zst')
"""


async def example() -> None:
    """Start everything, then follow the smoke plan."""
    async with playground(HERE / "tocsin.toml") as town:
        url = await town.create_database("office")
        office = await asyncpg.connect(url)
        try:
            await office.execute((HERE / "schema.sql").read_text())
            say("Starting topics and queues …")
            with running_cloud() as cloud:
                await town.start_tocsin(
                    TOCSIN_OUTBOXES__OFFICE__URL=url,
                    TOCSIN_OUTBOXES__OFFICE__TOPIC_ARN=cloud.topic_arn,
                    TOCSIN_AWS__ENDPOINT_URL=cloud.url,
                    TOCSIN_AWS__REGION=REGION,
                    TOCSIN_AWS__ACCESS_KEY_ID="example",
                    TOCSIN_AWS__SECRET_ACCESS_KEY="example",  # noqa: S106 - no account is behind it
                    TOCSIN_SNS__GCM_APP_ARN=ANDROID,
                    TOCSIN_SNS__APNS_APP_ARN=IOS,
                )
                await start_function(town, cloud)
                await follow(town, cloud, office)
        finally:
            await office.close()


async def start_function(town: Playground, cloud: Cloud) -> None:
    """Run the function for phones; mobile push is the sandbox's, so that phones can be looked at."""
    say("Starting the function for phones …")
    environment = cloud.environment | {
        "AWS_ENDPOINT_URL_SNS": town.sandbox.https_url,
        "AWS_CA_BUNDLE": str(town.sandbox.ca_file),
        "DELIVERY_API_URL": town.base_url,
        "DELIVERY_API_KEY": await town.key("delivery-mobile", Role.DELIVERY),
    }
    command = (sys.executable, "-m", "examples.fisa.function", cloud.mobile_queue)
    await town.run_logged(town.folder / "function.log", *command, **environment)


async def follow(town: Playground, cloud: Cloud, office: asyncpg.Connection) -> None:
    """Follow the smoke plan, step by step."""
    heading("1. Ada registers a phone with Android, Bo one with iOS")
    ada = await register(town, "ada", platform="android", fcm_token=ADA)
    bo = await register(town, "bo", platform="ios", apns_token=BO)

    heading("2. Somebody comments on a work item that both watch")
    await add_comment(office, "WI-7", "Looks good to me", author="cleo", watchers=["ada", "bo"])
    await ada.show(1)
    await bo.show(1)
    say(f"  Tapping it opens {ada.received()[0].link}")

    heading("3. Bo's phone gets another token; Ada removes the app")
    app = town.app(await town.client("office"), "bo")
    changed = await app.register_device(BO_LATER, "ios", provider="sns", replaces_token=BO)
    say(f"  endpoint of bo: {'the same' if changed.endpoint_arn == bo.address else 'another one'}")
    town.sandbox.phones.unregister(ada.address)
    await add_comment(office, "WI-7", "Shipped", author="cleo", watchers=["ada", "bo"])
    await bo.show(2)
    await until(lambda: has_no_device(town, "ada"), "Ada's device to be retired")
    say("  devices of ada: 0, retired because its endpoint is disabled")

    heading(f"4. {IN_A_ROW} comments in a row")
    words = [f"Comment {number} of {IN_A_ROW}" for number in range(1, IN_A_ROW + 1)]
    for each in words:
        await add_comment(office, "WI-8", each, author="cleo", watchers=["bo"])
    await until(lambda: has_received(bo, IN_A_ROW + 2), "all of them to arrive")
    shown = [each.body for each in bo.received()][2:]
    if shown != words:
        raise ExampleError(f"They arrived in another order: {shown}")
    say(f"  phone of bo: {len(shown)} more, in order: {shown[0]} … {shown[-1]}")

    heading("5. The archive has a copy of everything that was published")
    await archive(town, cloud)


async def register(town: Playground, owner: str, **fields: Any) -> Receiver:
    """Register a phone by the path of fisa's apps, and return it."""
    headers = {"Authorization": f"Bearer {town.token(owner)}", "Content-Type": "application/json"}
    async with ClientBuilder().base_url(town.base_url).error_for_status(True).build() as http:
        request = http.post(f"{DEVICES}/register").headers(headers).body_bytes(msgspec.json.encode(fields))
        answer = await request.build().send()
        arn: str = msgspec.json.decode(bytes(await answer.bytes()))["endpoint_arn"]
    say(f"  phone of {owner}: {arn.rpartition(':')[2].rpartition('/')[0]}/…")
    return Receiver(f"phone of {owner}", arn, town.sandbox)


async def has_received(phone: Receiver, count: int) -> bool:
    """Return whether so many messages have arrived."""
    return len(phone.received()) >= count


async def has_no_device(town: Playground, owner: str) -> bool:
    """Return whether a person has no device any more."""
    async with ClientBuilder().base_url(town.base_url).error_for_status(True).build() as http:
        headers = {"Authorization": f"Bearer {town.token(owner)}"}
        answer = await http.get("/v1/devices").headers(headers).build().send()
        return not msgspec.json.decode(bytes(await answer.bytes()))["devices"]


async def archive(town: Playground, cloud: Cloud) -> None:
    """Drain the archive's queue by `tocsin archive --once`, and read the files by DuckDB."""
    folder = town.folder / "archive"
    folder.mkdir()
    process = await town.run_logged(
        town.folder / "archive.log",
        *(sys.executable, "-m", "tocsin.cli", "archive", "--once"),
        TOCSIN_ARCHIVE__QUEUE_URL=cloud.archive_queue,
        TOCSIN_ARCHIVE__DESTINATION=str(folder),
        TOCSIN_AWS__ENDPOINT_URL=cloud.url,
        TOCSIN_AWS__REGION=REGION,
        TOCSIN_AWS__ACCESS_KEY_ID="example",
        TOCSIN_AWS__SECRET_ACCESS_KEY="example",  # noqa: S106 - no account is behind it
        TOCSIN_LOG__LEVEL="warning",
    )
    if await process.wait():
        raise ExampleError("The archive could not be written.")
    counted = duckdb.connect().execute(ARCHIVED.format(folder=folder)).fetchone()
    messages, events = counted or (0, 0)
    say(f"  DuckDB finds {messages} messages about {events} events")


if __name__ == "__main__":
    run(example)
