"""What a provider raises by its own mistake is an outcome of messages."""

import asyncio
import traceback
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

import structlog

from tocsin.domain.delivery.message import Message, Provider
from tocsin.domain.delivery.outcome import Outcome, Retry
from tocsin.engine.settle.settlements import PROVIDER_FAILED
from tocsin.providers.isolation import is_cancelled

Answered: TypeAlias = Sequence[tuple[int, Outcome]]
"""Outcomes that came together, each with the place of its message in the batch."""


class SendEach(Protocol):
    """`send_each` of a provider."""

    def __call__(self, batch: Sequence[Message], *, now: datetime) -> AsyncGenerator[Answered, None]:
        """Send the messages; yield the outcomes that came together."""


_log = structlog.stdlib.get_logger(__name__)


async def send_together(provider: Provider, messages: Sequence[Message], now: datetime) -> Sequence[Outcome]:
    """Send a batch; if the provider raises, each message by itself, and that is the outcome of one."""
    try:
        outcomes = await provider.send(messages, now=now)
        if len(outcomes) != len(messages):
            raise RuntimeError(f"{len(outcomes)} outcomes for {len(messages)} messages")  # noqa: TRY301
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a provider's own mistake must not stop the worker
        failed = provider_failed(provider, error, len(messages))
    else:
        return outcomes
    if len(messages) == 1:
        return [failed]
    apart = await asyncio.gather(*(send_together(provider, [each], now) for each in messages))
    return [outcome for outcomes in apart for outcome in outcomes]


def provider_failed(provider: Provider, error: BaseException, messages: int) -> Retry:
    """Return the outcome of messages whose provider raised; raise a cancellation that somebody asked for.

    It is logged without its text, which may quote a token.
    """
    if isinstance(error, asyncio.CancelledError) and is_cancelled():
        raise error
    kind = type(error).__name__
    _log.error(
        "provider failed",
        provider=provider.name,
        messages=messages,
        error=kind,
        raised_at="".join(traceback.format_tb(error.__traceback__)),
    )
    return Retry(PROVIDER_FAILED, kind, speaks_against="target")
