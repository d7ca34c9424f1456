"""Hands pushes to a gateway, which has the sessions of people, through a Redis stream."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tocsin.domain.delivery.message import HandOff, Message
from tocsin.domain.plan import GATEWAY_STREAM
from tocsin.providers.answers import Rule
from tocsin.providers.gateway_stream.answers import FAILED, RULES
from tocsin.providers.gateway_stream.render import render
from tocsin.providers.gateway_stream.settings import GatewayStreamSettings
from tocsin.providers.gateway_stream.tables import Tables
from tocsin.providers.redis_streams.commands import XAdd
from tocsin.providers.redis_streams.provider import StreamProvider


class GatewayStreamProvider(StreamProvider):
    """Appends one event for each push."""

    name: ClassVar[str] = GATEWAY_STREAM
    failed: ClassVar[str] = FAILED
    rules: ClassVar[Sequence[Rule]] = RULES

    def __init__(self, settings: GatewayStreamSettings) -> None:
        super().__init__(settings, XAdd(settings.stream, settings.max_len))
        self._tables = Tables(settings.tables)

    def event_fault(self, table: str, fields: tuple[str, ...]) -> str | None:
        """Return what is missing in the tables for an event."""
        return self._tables.fault(table, fields)

    def _fields(self, message: Message, hand_off: HandOff) -> Mapping[bytes, bytes]:
        return render(message, hand_off, self._tables)
