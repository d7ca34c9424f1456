"""A mail server that takes every mail and keeps it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, Envelope, Session


class MailSink:
    """The mails that came, by recipient."""

    def __init__(self) -> None:
        self.port = 0
        self._mails: dict[str, list[EmailMessage]] = {}

    def mails_to(self, address: str) -> list[EmailMessage]:
        return self._mails.get(address, [])

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        assert isinstance(envelope.content, bytes)
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        for recipient in envelope.rcpt_tos:
            self._mails.setdefault(recipient, []).append(mail)
        return "250 OK"


@contextlib.asynccontextmanager
async def running_sink() -> AsyncIterator[MailSink]:
    """Run a mail server in this event loop."""
    sink = MailSink()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(sink, hostname="sink", loop=loop), "127.0.0.1", 0)
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        server.close()
