"""Endpoints against moto: another implementation of SNS, by other people."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from tests.aws_servers import AwsServer
from tocsin.providers.aws.settings import AwsSettings
from tocsin.providers.sns.endpoints import SnsEndpoints
from tocsin.providers.sns.errors import SnsUnavailableError
from tocsin.providers.sns.settings import SnsSettings


@pytest.fixture
def application(aws_server: AwsServer) -> str:
    made = aws_server.client("sns").create_platform_application(
        Name=f"app-{uuid4()}", Platform="GCM", Attributes={}
    )
    arn: str = made["PlatformApplicationArn"]
    return arn


@pytest.fixture
async def endpoints(aws_server: AwsServer, application: str) -> AsyncIterator[SnsEndpoints]:
    opened = SnsEndpoints(SnsSettings(gcm_app_arn=application), aws_server.settings)
    yield opened
    await opened.aclose()


def attributes(aws_server: AwsServer, arn: str) -> Any:
    return aws_server.client("sns").get_endpoint_attributes(EndpointArn=arn)["Attributes"]


async def test_an_endpoint_is_created_moved_refreshed_enabled_and_deleted(
    aws_server: AwsServer, application: str, endpoints: SnsEndpoints
) -> None:
    arn = await endpoints.ensure(application, "t1", "ada")
    assert await endpoints.ensure(application, "t1", "ada", arn) == arn
    assert await endpoints.ensure(application, "t1", "bob") == arn
    assert attributes(aws_server, arn)["CustomUserData"] == "bob"
    aws_server.client("sns").set_endpoint_attributes(EndpointArn=arn, Attributes={"Enabled": "false"})
    assert await endpoints.ensure(application, "t2", "bob", arn) == arn
    read = attributes(aws_server, arn)
    assert (read["Token"], read["Enabled"]) == ("t2", "true")

    await endpoints.delete(arn)
    await endpoints.delete(arn)

    assert await endpoints.ensure(application, "t2", "bob", arn) != arn


async def test_a_service_that_cannot_be_reached_is_unavailable(application: str) -> None:
    away = AwsSettings(endpoint_url="http://127.0.0.1:1", access_key_id="x", secret_access_key="x")
    endpoints = SnsEndpoints(SnsSettings(gcm_app_arn=application), away)
    try:
        with pytest.raises(SnsUnavailableError, match="network_error"):
            await endpoints.ensure(application, "t1", "ada")
    finally:
        await endpoints.aclose()


async def test_a_profile_that_does_not_exist_needs_an_operator(
    application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    endpoints = SnsEndpoints(SnsSettings(gcm_app_arn=application), AwsSettings())
    try:
        with pytest.raises(SnsUnavailableError) as raised:
            await endpoints.ensure(application, "t1", "ada")
    finally:
        await endpoints.aclose()

    assert raised.value.alarm


@pytest.mark.usefixtures("expired_credentials")
async def test_a_registration_with_expired_credentials_needs_an_operator(application: str) -> None:
    endpoints = SnsEndpoints(SnsSettings(gcm_app_arn=application), AwsSettings())
    try:
        with pytest.raises(SnsUnavailableError, match="no_credentials") as raised:
            await endpoints.ensure(application, "t1", "ada")
    finally:
        await endpoints.aclose()

    assert raised.value.alarm
