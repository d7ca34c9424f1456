"""The function for phones with the database instead of the API."""

from collections.abc import AsyncIterator

import pytest

from tests.aws.functions.conftest import Function
from tests.aws.functions.events import envelope, failed, queue_record
from tests.aws.functions.faulty_aws import FaultyAws
from tests.aws.functions.phones import new_endpoint, received, register_phone
from tests.aws_servers import REGION, AwsServer
from tests.databases import SCHEMA
from tocsin.aws import delivery_mobile
from tocsin.domain.people.devices import DeviceSettings
from tocsin.engine.clock import utc_now
from tocsin.store.people import devices, preferences
from tocsin.store.people.devices import DeviceRegistration
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import DataKeys


@pytest.fixture
async def mobile(
    database_url: str, faulty_aws: FaultyAws, clean_environ: pytest.MonkeyPatch
) -> AsyncIterator[Function]:
    clean_environ.setenv("DELIVERY_DATABASE_URL", database_url)
    clean_environ.setenv("DELIVERY_SCHEMA", SCHEMA)
    clean_environ.setenv("DELIVERY_CATEGORIES", '{"comment_added": "comments"}')
    clean_environ.setenv("AWS_ENDPOINT_URL", faulty_aws.url)
    clean_environ.setenv("AWS_DEFAULT_REGION", REGION)
    function = Function(delivery_mobile)
    function.restart()
    yield function
    function.restart()


async def test_phones_are_found_and_retired(
    mobile: Function, pool: Pool, aws_server: AwsServer, faulty_aws: FaultyAws
) -> None:
    gone, kept = [await register_phone(pool, aws_server, "ada") for _ in range(2)]
    refused = await register_phone(pool, aws_server, "bob")
    await preferences.change(pool, "bob", {"comments": {"push": False}}, utc_now())
    faulty_aws.fail(gone, 400, "EndpointDisabled")

    assert failed(await mobile(queue_record(envelope("ada", "bob"), "broadcast"))) == []

    assert (len(received(kept)), len(received(refused))) == (1, 0)
    async with pool.acquire() as connection:
        rows = await devices.of_user(connection, "ada", include_retired=True)
    assert sorted(row.retired_reason or "" for row in rows) == ["", "gone: EndpointDisabled"]


async def test_endpoints_that_are_encrypted_are_left_out(
    mobile: Function, pool: Pool, aws_server: AwsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    arn = new_endpoint(aws_server)
    wanted = DeviceRegistration(user_id="ada", token=arn, platform="android", provider="sns")
    await devices.register(pool, wanted, DeviceSettings(), utc_now(), DataKeys(b"k" * 32))

    assert failed(await mobile(queue_record(envelope("ada"), "user-ada"))) == []

    assert received(arn) == []
    assert '"unreadable":1' in capsys.readouterr().out


async def test_a_connection_that_broke_is_opened_again(
    mobile: Function, pool: Pool, aws_server: AwsServer
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    assert failed(await mobile(queue_record(envelope("ada"), "user-ada"))) == []
    ended = await pool.fetchval(
        "select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity"
        " where application_name = 'tocsin delivery' and datname = current_database()"
    )
    assert ended == 1
    second, third = [queue_record(envelope("ada"), "user-ada") for _ in range(2)]

    assert failed(await mobile(second, third)) == []

    assert len(received(phone)) == 3


async def test_without_the_database_nothing_is_lost(
    mobile: Function, clean_environ: pytest.MonkeyPatch
) -> None:
    clean_environ.setenv("DELIVERY_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    record = queue_record(envelope("ada"), "user-ada")

    assert failed(await mobile(record)) == [record["messageId"]]
