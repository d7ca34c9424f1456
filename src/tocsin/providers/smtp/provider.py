"""E-mail over SMTP."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from aiosmtplib import (
    SMTPAuthenticationError,
    SMTPDataError,
    SMTPException,
    SMTPNotSupported,
    SMTPRecipientRefused,
    SMTPResponseException,
    SMTPSenderRefused,
)

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Defer, Outcome, Rejected, Retry, Sent
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.http.ca_file import read_ca_file
from tocsin.providers.isolation import send_each
from tocsin.providers.smtp.answers import Stage, classify, read_answer, redact
from tocsin.providers.smtp.pool import SmtpPool, SmtpPoolSettings
from tocsin.providers.smtp.render import Mailbox, read_mailbox, render
from tocsin.providers.smtp.session import UNREADABLE, SmtpConnection, SmtpSession, open_session
from tocsin.providers.smtp.settings import SmtpSettings

_STAGES: Mapping[type[SMTPResponseException], Stage] = {
    SMTPAuthenticationError: "login",
    SMTPSenderRefused: "sender",
    SMTPRecipientRefused: "recipient",
    SMTPDataError: "content",
}


class SmtpProvider:
    """Sends each message to one mail server over a few lasting connections.

    `concurrency` is how many messages may be under way at once.
    """

    name: ClassVar[str] = "smtp"
    limits: ClassVar[Limits] = Limits(payload_bytes=1_000_000, batch=1, ttl_seconds=2_419_200)

    def __init__(self, settings: SmtpSettings, pool: SmtpPoolSettings | None = None) -> None:
        settings.required("host")
        settings.raise_faults()
        self._settings = settings
        self.concurrency = settings.connections
        self._sender = _mailbox(settings.required("sender"))
        self._reply_to = _mailbox(settings.reply_to) if settings.reply_to else None
        self._context = None if settings.security == "none" else _context(settings.ca_file)
        self._pool = SmtpPool(self._open_session, settings.connections, pool)

    async def prepare(self) -> None:
        """Do nothing: connections are opened for the first messages."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Send the messages of the batch concurrently."""
        return await send_each(self.name, batch, lambda message: self._send_one(message, now))

    async def aclose(self) -> None:
        """Quit and close every connection."""
        await self._pool.aclose()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        mail = render(
            message,
            sender=self._sender,
            reply_to=self._reply_to,
            limit=self.limits.payload_bytes,
            now=now,
        )
        if isinstance(mail, Rejected):
            return mail
        session: SmtpSession | None = None
        try:
            async with asyncio.timeout(self._settings.timeout), self._pool.session() as session:
                recipient = mail.recipient
                await session.send_mail(
                    self._sender.address, recipient.address, mail.content, utf8=recipient.needs_utf8
                )
        except SMTPNotSupported:
            return Rejected("smtputf8_unsupported", "the server takes no addresses beyond ASCII")
        except SMTPResponseException as error:
            if error.code == UNREADABLE:
                text = "the server answered with something else than SMTP"
                return Retry("unreadable_answer", text, uncertain=_may_be_taken(session))
            return self._refused(error, message.target, mail.recipient.address)
        except TimeoutError as error:
            return Retry("timeout", type(error).__name__, uncertain=_may_be_taken(session))
        except OSError as error:
            kind = type(error.__cause__ or error).__name__
            return Retry("network_error", kind, uncertain=_may_be_taken(session))
        except SMTPException as error:
            # The server lacks what the settings ask of it, such as STARTTLS or AUTH.
            detail = redact(str(error), secrets=_secrets(self._settings))
            return Defer("server_unfit", ALARM_REST, detail, alarm=True)
        return Sent(mail.message_id)

    def _refused(self, error: SMTPResponseException, *addresses: str) -> Outcome:
        answer = read_answer(error.code, error.message)
        detail = redact(answer.text, addresses=addresses, secrets=_secrets(self._settings))
        return classify(answer._replace(text=detail), _STAGES.get(type(error), "hello"))

    async def _open_session(self) -> SmtpSession:
        settings = self._settings
        connection = SmtpConnection(
            hostname=settings.host,
            port=settings.port,
            use_tls=settings.security == "tls",
            start_tls=settings.security == "starttls",
            tls_context=self._context,
            username=settings.username,
            password=settings.password,
            local_hostname=self._sender.domain,
            timeout=None,
        )
        return await open_session(connection)


def _may_be_taken(session: SmtpSession | None) -> bool:
    """Return whether the answer may have been lost after the server took the mail."""
    return session is not None and session.content_sent


def _mailbox(text: str) -> Mailbox:
    mailbox = read_mailbox(text)
    if mailbox is None:
        raise ProviderSetupError(f"{text!r} is not a mail address.")
    return mailbox


def _secrets(settings: SmtpSettings) -> tuple[str, ...]:
    """List what no detail may quote, in the forms in which it goes over the wire."""
    if settings.username is None or settings.password is None:
        return ()
    forms = (settings.password, settings.username, f"\0{settings.username}\0{settings.password}")
    return (*(b64encode(form.encode()).decode() for form in forms[::-1]), *forms[:2])


def _context(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    certificates = read_ca_file(ca_file)
    if certificates:
        try:
            context.load_verify_locations(cadata=certificates.decode())
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise ProviderSetupError(f"The CA file {ca_file} cannot be used: {error}") from error
    return context
