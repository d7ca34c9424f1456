"""The function for phones while the API is away, a key is refused, or its time ends."""

import os

import pytest

from tests.aws.functions.conftest import Function
from tests.aws.functions.events import envelope, failed, queue_record
from tests.aws.functions.faulty_aws import FaultyAws
from tests.aws.functions.phones import bodies, received, register_phone
from tests.aws.functions.test_mobile import Context, retired
from tests.aws_servers import AwsServer
from tocsin.store.pool import Pool


async def test_without_the_api_nothing_is_lost(
    mobile: Function, pool: Pool, aws_server: AwsServer, clean_environ: pytest.MonkeyPatch
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    clean_environ.setenv("DELIVERY_API_URL", "http://127.0.0.1:9")
    record = queue_record(envelope("ada"), "user-ada")

    assert failed(await mobile(record)) == [record["messageId"]]

    assert received(phone) == []


async def test_a_key_of_the_parameter_store_is_read_again_once_it_is_refused(
    mobile: Function, pool: Pool, aws_server: AwsServer, clean_environ: pytest.MonkeyPatch
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    ssm = aws_server.client("ssm")
    secret = os.environ["DELIVERY_API_KEY"]
    clean_environ.delenv("DELIVERY_API_KEY")
    clean_environ.setenv("DELIVERY_API_KEY_PARAMETER", "/fisa/delivery-key")
    ssm.put_parameter(
        Name="/fisa/delivery-key", Value="tocsin_" + "x" * 43, Type="SecureString", Overwrite=True
    )
    record = queue_record(envelope("ada"), "user-ada")
    assert failed(await mobile(record)) == [record["messageId"]]

    ssm.put_parameter(Name="/fisa/delivery-key", Value=secret, Type="SecureString", Overwrite=True)

    assert failed(await mobile(record)) == []
    assert len(received(phone)) == 1


async def test_with_little_time_left_no_further_message_is_begun(
    mobile: Function, pool: Pool, aws_server: AwsServer
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    records = [queue_record(envelope("ada", body=str(number)), "user-ada") for number in range(3)]

    answer = await mobile(*records, context=Context(60_000, 60_000, 9_000))

    assert failed(answer) == [records[1]["messageId"], records[2]["messageId"]]
    assert bodies(phone) == ["0"]


async def test_with_little_time_left_no_further_phone_is_begun_and_none_gets_a_repeat(
    mobile: Function, pool: Pool, aws_server: AwsServer
) -> None:
    phones = [await register_phone(pool, aws_server, "ada") for _ in range(5)]
    record = queue_record(envelope("ada"), "user-ada")

    answer = await mobile(record, context=Context(60_000, 30_000, 30_000, 9_000))

    assert failed(answer) == [record["messageId"]]
    assert sum(len(received(phone)) for phone in phones) == 2
    assert failed(await mobile(record)) == []
    assert [len(received(phone)) for phone in phones] == [1] * 5


async def test_with_little_time_left_no_further_endpoint_is_retired(
    mobile: Function, pool: Pool, aws_server: AwsServer, faulty_aws: FaultyAws
) -> None:
    phones = [await register_phone(pool, aws_server, "ada") for _ in range(3)]
    for phone in phones:
        faulty_aws.fail(phone, 400, "EndpointDisabled")

    answer = await mobile(
        queue_record(envelope("ada"), "user-ada"), context=Context(*[60_000] * 4, 17_000, 9_000)
    )

    # The next message finds the others again.
    assert failed(answer) == []
    assert len(await retired(pool, "ada")) == 1
