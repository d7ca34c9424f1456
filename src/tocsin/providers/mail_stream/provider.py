"""Hands e-mails to a mail service, which has the templates, through a Redis stream."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tocsin.domain.delivery.message import HandOff, Message
from tocsin.domain.plan import MAIL_STREAM
from tocsin.providers.answers import Rule
from tocsin.providers.mail_stream.answers import FAILED, RULES
from tocsin.providers.mail_stream.render import render
from tocsin.providers.mail_stream.settings import MailStreamSettings
from tocsin.providers.redis_streams.commands import XAdd
from tocsin.providers.redis_streams.provider import StreamProvider


class MailStreamProvider(StreamProvider):
    """Appends one command for each mail; the stream is not trimmed."""

    name: ClassVar[str] = MAIL_STREAM
    failed: ClassVar[str] = FAILED
    rules: ClassVar[Sequence[Rule]] = RULES

    def __init__(self, settings: MailStreamSettings) -> None:
        super().__init__(settings, XAdd(settings.stream))
        self._source = settings.source

    def _fields(self, message: Message, hand_off: HandOff) -> Mapping[bytes, bytes]:
        return render(message, hand_off, self._source)
