"""Sends messages by one provider and says what that cost this process; the order comes in as JSON."""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, assert_never

import msgspec
import uvloop

from bench.contract import Arena
from bench.programs.messages import messages
from tocsin.domain.delivery.message import Message, Provider
from tocsin.domain.delivery.outcome import Sent
from tocsin.engine.clock import utc_now
from tocsin.gc_tuning import tune_gc
from tocsin.providers.apns.provider import ApnsProvider
from tocsin.providers.apns.settings import ApnsSettings
from tocsin.providers.expo.provider import ExpoProvider
from tocsin.providers.expo.settings import ExpoSettings
from tocsin.providers.fcm.provider import FcmProvider
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.providers.smtp.provider import SmtpProvider
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.providers.webhook.provider import WebhookProvider
from tocsin.providers.webhook.settings import WebhookSettings
from tocsin.providers.webpush.crypto import new_private_key_pem
from tocsin.providers.webpush.provider import WebPushProvider
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.sandbox.apns.provider_token import KEY_ID, TEAM_ID

ProviderName = Literal["fcm", "apns", "expo", "webpush", "smtp", "webhook"]


class ProviderOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to send; `places` are the subscriptions or URLs to send to, where the provider needs such."""

    arena: Arena
    provider: ProviderName
    count: int
    warm_up: int
    concurrency: int
    places: tuple[str, ...] = ()


class ProviderCost(msgspec.Struct, frozen=True):
    """How long it took, and the processor time of the sending process with all its threads."""

    seconds: float
    cpu_seconds: float


def build(order: ProviderOrder) -> Provider:
    """Make the provider that the order names, for the sandbox."""
    arena = order.arena
    shared: dict[str, Any] = {"max_concurrency": order.concurrency, "ca_file": arena.ca_file}
    match order.provider:
        case "fcm":
            credentials = arena.credentials_file
            return FcmProvider(FcmSettings(base_url=arena.url, credentials_file=credentials, **shared))
        case "apns":
            key: dict[str, Any] = {"key_file": arena.apns_key_file, "key_id": KEY_ID, "team_id": TEAM_ID}
            return ApnsProvider(ApnsSettings(base_url=arena.url, topic="com.example.shop", **key, **shared))
        case "expo":
            return ExpoProvider(ExpoSettings(enabled=True, base_url=arena.url, **shared))
        case "webpush":
            browsers: dict[str, Any] = {"subject": "mailto:operator@example.com", "enabled": True}
            settings = WebPushSettings(allow_private_addresses=True, **browsers, **shared)
            return WebPushProvider(settings, new_private_key_pem())
        case "smtp":
            return SmtpProvider(
                SmtpSettings(
                    host="127.0.0.1",
                    port=arena.smtp_port,
                    sender="Tocsin <notify@example.com>",
                    connections=order.concurrency,
                    ca_file=arena.ca_file,
                )
            )
        case "webhook":
            return WebhookProvider(WebhookSettings(enabled=True, allow_private_addresses=True, **shared))
        case _:
            assert_never(order.provider)


async def send_all(provider: Provider, ready: Sequence[Message]) -> None:
    """Send in the provider's own batches, as many at a time as it takes."""
    size = provider.limits.batch
    batches = iter([ready[start : start + size] for start in range(0, len(ready), size)])

    async def send_in_turn() -> None:
        for batch in batches:
            outcomes = await provider.send(batch, now=utc_now())
            unsent = [outcome for outcome in outcomes if not isinstance(outcome, Sent)]
            if unsent:
                raise RuntimeError(f"{provider.name} did not take a message: {unsent[0]}")

    async with asyncio.TaskGroup() as sending:
        for _ in range(max(1, provider.concurrency // size)):
            sending.create_task(send_in_turn())


async def run(order: ProviderOrder) -> ProviderCost:
    """Warm up, then send with the clocks running."""
    ready = messages(order.provider, order.warm_up + order.count, order.places)
    provider = build(order)
    await provider.prepare()
    await send_all(provider, ready[: order.warm_up])
    tune_gc()
    wall, cpu = time.perf_counter(), time.process_time()
    await send_all(provider, ready[order.warm_up :])
    cost = ProviderCost(seconds=time.perf_counter() - wall, cpu_seconds=time.process_time() - cpu)
    await provider.aclose()
    return cost


def main() -> None:
    """Print what it cost as JSON."""
    order = msgspec.json.decode(
        sys.stdin.buffer.read(), type=ProviderOrder, dec_hook=lambda _, text: Path(text)
    )
    print(msgspec.json.encode(uvloop.run(run(order))).decode())


if __name__ == "__main__":
    main()
