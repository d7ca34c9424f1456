"""The platform endpoints of SNS: created, kept current and deleted.

SNS has one endpoint for each token of a platform application. To create one that exists returns it, unless
its attributes differ: then the error has its ARN. An endpoint that was created before may be disabled, or
have another token, so its attributes are read and set until they are as they should be.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tocsin.domain.delivery.outcome import Defer
from tocsin.domain.people.devices import token_hash
from tocsin.providers.aws.errors import (
    AWS_FAULTS,
    NO_ANSWER,
    answered,
    are_credentials_expired,
    is_time_out,
)
from tocsin.providers.aws.settings import AwsSettings
from tocsin.providers.sns.answers import classify
from tocsin.providers.sns.errors import SnsUnavailableError, TokenRefusedError
from tocsin.providers.sns.provider import sns_clients
from tocsin.providers.sns.settings import SnsSettings

TRIES = 5
"""How often an endpoint is looked at; others may change or delete it meanwhile."""

SERVER_ERROR = 500

_EXISTS = re.compile(r"Endpoint (?P<arn>arn:\S{1,512}) already exists with the same Token")
_ABOUT_TOKEN = re.compile(r"Invalid parameter: Token\b")


class SnsEndpoints:
    """Registers and deletes endpoints of the platform applications in the settings."""

    def __init__(self, settings: SnsSettings, aws: AwsSettings) -> None:
        self.settings = settings
        self._clients = sns_clients(settings, aws)

    async def prepare(self) -> None:
        """Open the client ahead of the first call, which takes long; faults show at the first call."""
        with suppress(BotoCoreError):
            await self._clients.client("sns")

    async def aclose(self) -> None:
        """Close every connection."""
        await self._clients.aclose()

    async def ensure(self, application: str, token: str, user_id: str, known: str | None = None) -> str:
        """Return the ARN of the enabled endpoint of a token, which has the person's id as its user data.

        `known` is the ARN of an endpoint of the same device, which may have another token. Raise
        TokenRefusedError or SnsUnavailableError.
        """
        arn = known if known and known.startswith(_endpoint_prefix(application)) else None
        wanted = {"Token": token, "Enabled": "true", "CustomUserData": user_id}
        async with self._calling() as client:
            for _ in range(TRIES):
                arn = arn or await _create(client, application, token, user_id)
                attributes = await _attributes(client, arn)
                if attributes is None:
                    arn = None
                elif _is_current(attributes, wanted):
                    return arn
                else:
                    arn = await _set(client, arn, wanted, application)
        raise SnsUnavailableError("endpoint_changing")

    async def delete(self, arn: str) -> None:
        """Delete an endpoint; one that does not exist is no error. Raise SnsUnavailableError."""
        async with self._calling() as client:
            await client.delete_endpoint(EndpointArn=arn)

    @asynccontextmanager
    async def _calling(self) -> AsyncIterator[Any]:
        """Yield the client for as long as an attempt may take; what goes wrong is a SnsUnavailableError."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                yield await self._clients.client("sns")
        except ClientError as error:
            raise _refusal(error) from None
        except NO_ANSWER as error:
            raise SnsUnavailableError("timeout" if is_time_out(error) else "network_error") from None
        except (*AWS_FAULTS, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not are_credentials_expired(error):
                raise
            raise SnsUnavailableError("no_credentials", alarm=True) from None


def _refusal(error: ClientError) -> TokenRefusedError | SnsUnavailableError:
    said = answered(error)
    if said.code == "InvalidParameter" and _ABOUT_TOKEN.match(said.message):
        return TokenRefusedError("SNS refuses the token")
    outcome = classify(said.status, said.code, said.message, None)
    # Whatever else SNS refuses here is no word about the app: the settings or permissions are wrong.
    is_busy = isinstance(outcome, Defer) and not outcome.alarm
    return SnsUnavailableError(outcome.code, alarm=not is_busy and said.status < SERVER_ERROR)


async def _create(client: Any, application: str, token: str, user_id: str) -> str:
    try:
        made = await client.create_platform_endpoint(
            PlatformApplicationArn=application, Token=token, CustomUserData=user_id
        )
    except ClientError as error:
        return _existing(error, application)
    arn: str = made["EndpointArn"]
    return arn


async def _attributes(client: Any, arn: str) -> Mapping[str, str] | None:
    """Return the attributes of an endpoint; None if it does not exist."""
    try:
        found = await client.get_endpoint_attributes(EndpointArn=arn)
    except ClientError as error:
        if answered(error).code == "NotFound":
            return None
        raise
    attributes: Mapping[str, str] = found.get("Attributes", {})
    return attributes


async def _set(client: Any, arn: str, wanted: Mapping[str, str], application: str) -> str | None:
    """Set the attributes; return the endpoint to look at next, None if a new one has to be created."""
    try:
        await client.set_endpoint_attributes(EndpointArn=arn, Attributes=wanted)
    except ClientError as error:
        if answered(error).code == "NotFound":
            return None
        return _existing(error, application)
    return arn


def _existing(error: ClientError, application: str) -> str:
    """Return the ARN of the endpoint that has the token already, or raise the error."""
    found = _EXISTS.search(answered(error).message)
    if found is None or not found["arn"].startswith(_endpoint_prefix(application)):
        raise error
    return found["arn"]


def _endpoint_prefix(application: str) -> str:
    return application.replace(":app/", ":endpoint/", 1) + "/"


def _is_current(attributes: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return (
        attributes.get("Enabled", "").lower() == "true"
        # The same token may be spelt in capitals.
        and token_hash(attributes.get("Token", "")) == token_hash(wanted["Token"])
        and attributes.get("CustomUserData") == wanted["CustomUserData"]
    )
