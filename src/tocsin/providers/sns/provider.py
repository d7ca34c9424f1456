"""Amazon SNS mobile push: one Publish for each message to the endpoint of a device."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from typing import ClassVar

import msgspec
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from botocore.parsers import ResponseParserError

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.aws.clients import AwsClients
from tocsin.providers.aws.errors import (
    AWS_FAULTS,
    NO_ANSWER,
    answered,
    are_credentials_expired,
    is_time_out,
    may_have_arrived,
)
from tocsin.providers.aws.settings import AwsSettings
from tocsin.providers.isolation import send_each
from tocsin.providers.sns.answers import classify
from tocsin.providers.sns.render import LONGEST_TTL, PAYLOAD_BYTES, render
from tocsin.providers.sns.settings import SnsSettings, service_of


def sns_clients(settings: SnsSettings, aws: AwsSettings) -> AwsClients:
    """Build the clients of AWS for the account and region of the platform applications."""
    settings.raise_faults()
    adapted = msgspec.structs.replace(
        aws,
        endpoint_url=settings.base_url or aws.endpoint_url,
        region=settings.region,
        timeout=settings.timeout,
        max_connections=settings.max_concurrency,
    )
    return AwsClients(adapted, ca_file=settings.ca_file)


class SnsProvider:
    """Publishes to endpoints, one message a request."""

    name: ClassVar[str] = "sns"
    limits: ClassVar[Limits] = Limits(payload_bytes=PAYLOAD_BYTES, batch=1, ttl_seconds=LONGEST_TTL)

    def __init__(self, settings: SnsSettings, aws: AwsSettings) -> None:
        self._settings = settings
        self.concurrency = settings.max_concurrency
        self._clients = sns_clients(settings, aws)

    async def prepare(self) -> None:
        """Open the client ahead of the first message, which takes long; faults show at the first send."""
        with suppress(BotoCoreError):
            await self._clients.client("sns")

    def send(self, batch: Sequence[Message], *, now: datetime) -> Coroutine[None, None, Sequence[Outcome]]:
        """Publish each message of the batch, all at once."""
        return send_each(self.name, batch, lambda message: self._send_one(message, now), _fault)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._clients.aclose()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        if message.target_kind != "token":
            return Rejected("target_not_supported", f"SNS reaches single devices, no {message.target_kind}")
        service = service_of(message.target)
        if service is None:
            # SNS would answer the same to every message.
            return Gone("InvalidParameter", "the target is no endpoint of FCM or APNs")
        if not self._settings.owns(message.target):
            # Whoever changed the platform applications can change them back: the devices stay.
            detail = "the endpoint is in another account or region than sns.gcm_app_arn or sns.apns_app_arn"
            return Defer("other_account", ALARM_REST, detail, pauses=False, alarm=True)
        rendered = render(message, service, now, self._settings.apns_topic)
        if isinstance(rendered, Rejected):
            return rendered
        try:
            async with asyncio.timeout(self._settings.timeout):
                client = await self._clients.client("sns")
                answer = await client.publish(TargetArn=message.target, **rendered)
        except ClientError as error:
            refusal = answered(error)
            return classify(refusal.status, refusal.code, refusal.message, refusal.retry_after(now))
        return Sent(answer.get("MessageId"))


def _fault(error: Exception) -> Retry | Defer | None:
    """Return the outcome of a request without an answer; the text of an error may quote the request."""
    kind = type(error).__name__
    match error:
        case ParamValidationError():
            return None
        case ResponseParserError():
            return Retry("unreadable_answer", "SNS answered with something else than its XML", uncertain=True)
        case error if isinstance(error, NO_ANSWER):
            code = "timeout" if is_time_out(error) else "network_error"
            return Retry(code, kind, uncertain=may_have_arrived(error))
        case error if isinstance(error, AWS_FAULTS) or are_credentials_expired(error):
            return Defer("no_credentials", ALARM_REST, kind, alarm=True)
        case _:
            return None
