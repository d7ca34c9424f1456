"""E-mail over SMTP."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec
from aiosmtplib import (
    SMTPAuthenticationError,
    SMTPDataError,
    SMTPException,
    SMTPNotSupported,
    SMTPRecipientRefused,
    SMTPRecipientsRefused,
    SMTPResponseException,
    SMTPSenderRefused,
)
from msgspec import Meta

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Defer, Outcome, Rejected, Retry, Sent
from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.faults import Fault
from tocsin.providers.http.client import authority
from tocsin.providers.smtp.answers import ALARM_REST, Stage, classify, read_answer, redact
from tocsin.providers.smtp.pool import PoolSettings, SmtpConnection, SmtpPool
from tocsin.providers.smtp.render import Envelope, Mailbox, read_mailbox, write_mail

_UNREADABLE = -1
_TLS_PORT = 465


class SmtpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the mail server is reached; without a host no mail is sent.

    `connections` is how many are open at most, each for one message at a time.
    """

    host: str | None = None
    port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = None
    password: str | None = None
    sender: str | None = None
    reply_to: str | None = None
    connections: Annotated[int, Meta(ge=1, le=500)] = 4
    timeout: Annotated[float, Meta(gt=0, le=300)] = 20.0
    ca_file: Path | None = None

    def __repr__(self) -> str:
        """Tell where the server is, and nothing of the account."""
        return f"SmtpSettings(host={self.host!r}, port={self.port}, security={self.security!r})"


def smtp_settings_faults(settings: SmtpSettings) -> Iterator[Fault]:
    """Find what is wrong with the settings for mail."""
    if settings.host is None:
        return
    if settings.sender is None:
        message = "must be set with smtp.host, such as 'Acme <notify@acme.example>'"
        yield Fault(field="smtp.sender", code="missing", message=message)
    for field, text in (("sender", settings.sender), ("reply_to", settings.reply_to)):
        mailbox = None if text is None else read_mailbox(text)
        if text is not None and (mailbox is None or mailbox.needs_utf8):
            message = "must be a mail address in ASCII, with a name if you like: 'Acme <notify@acme.example>'"
            yield Fault(field=f"smtp.{field}", code="invalid", message=message)
    if (settings.username is None) != (settings.password is None):
        missing = "username" if settings.username is None else "password"
        message = "must be set too: a user name and a password go together"
        yield Fault(field=f"smtp.{missing}", code="missing", message=message)
    if settings.security == "none" and settings.password is not None and not _is_loopback(settings.host):
        message = "must be 'starttls' or 'tls' when a password is sent to another machine"
        yield Fault(field="smtp.security", code="insecure", message=message)
    if settings.security == "starttls" and settings.port == _TLS_PORT:
        message = (
            f"must be 'tls' with smtp.port {_TLS_PORT}, where a server speaks TLS from the first byte on"
        )
        yield Fault(field="smtp.security", code="contradiction", message=message)
    if settings.ca_file is not None and not settings.ca_file.is_file():
        yield Fault(field="smtp.ca_file", code="missing", message=f"{settings.ca_file} is not a file")


class SmtpProvider:
    """Hands each message to one mail server over a few lasting connections."""

    name: ClassVar[str] = "smtp"
    limits: ClassVar[Limits] = Limits(payload_bytes=1_000_000, batch=20, ttl_seconds=2_419_200)

    def __init__(self, settings: SmtpSettings, pool: PoolSettings | None = None) -> None:
        faults = [*smtp_settings_faults(settings)]
        if settings.host is None or settings.sender is None or faults:
            told = "; ".join(map(str, faults)) or "smtp.host: must be set"
            raise ProviderSetupError(f"Mail cannot be sent with these settings: {told}.")
        self._settings = settings
        self._sender = _mailbox(settings.sender)
        self._reply_to = _mailbox(settings.reply_to) if settings.reply_to else None
        self._context = None if settings.security == "none" else _context(settings.ca_file)
        self._pool = SmtpPool(self._connection, settings.connections, pool)

    @property
    def concurrency(self) -> int:
        """How many messages may be under way at once."""
        return self._settings.connections

    async def prepare(self) -> None:
        """Do nothing: connections are made for the first messages."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:
        """Hand over the messages of the batch side by side."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._send_one(message, now)) for message in batch]
        return [task.result() for task in tasks]

    async def aclose(self) -> None:
        """Take leave of the server on every connection."""
        await self._pool.aclose()

    async def _send_one(self, message: Message, now: datetime) -> Outcome:
        mail = write_mail(
            message,
            sender=self._sender,
            reply_to=self._reply_to,
            limit=self.limits.payload_bytes,
            now=now,
        )
        if isinstance(mail, Rejected):
            return mail
        try:
            async with asyncio.timeout(self._settings.timeout), self._pool.connection() as connection:
                await self._hand_over(connection, mail)
        except SMTPNotSupported:
            return Rejected("smtputf8_unsupported", "the server takes no addresses beyond ASCII")
        except SMTPResponseException as error:
            return self._refused(error, message.target, mail.recipient.address)
        except TimeoutError as error:
            return Retry("timeout", type(error).__name__)
        except OSError as error:
            return Retry("network_error", type(error.__cause__ or error).__name__)
        except SMTPException as error:
            # The server lacks what the settings ask of it, such as STARTTLS or AUTH.
            detail = redact(str(error), secrets=_secrets(self._settings))
            return Defer("server_unfit", ALARM_REST, detail, alarm=True)
        return Sent(mail.message_id)

    async def _hand_over(self, connection: SmtpConnection, mail: Envelope) -> None:
        options = ["SMTPUTF8"] if mail.recipient.needs_utf8 else []
        try:
            await connection.sendmail(
                self._sender.address, [mail.recipient.address], mail.content, mail_options=options
            )
        except SMTPRecipientsRefused as error:
            raise error.recipients[0] from None

    def _refused(self, error: SMTPResponseException, *addresses: str) -> Outcome:
        if error.code == _UNREADABLE:
            return Retry("unreadable_answer", "the server answered with something else than SMTP")
        answer = read_answer(error.code, error.message)
        detail = redact(answer.text, addresses=addresses, secrets=_secrets(self._settings))
        return classify(answer._replace(text=detail), _stage(error))

    def _connection(self) -> SmtpConnection:
        settings = self._settings
        return SmtpConnection(
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


def _stage(error: SMTPResponseException) -> Stage:
    match error:
        case SMTPAuthenticationError():
            return "login"
        case SMTPSenderRefused():
            return "sender"
        case SMTPRecipientRefused():
            return "recipient"
        case SMTPDataError():
            return "content"
        case _:
            return "hello"


def _mailbox(text: str) -> Mailbox:
    mailbox = read_mailbox(text)
    if mailbox is None:
        raise ProviderSetupError(f"{text!r} is not a mail address.")
    return mailbox


def _secrets(settings: SmtpSettings) -> tuple[str, ...]:
    """Give what must not be repeated, in the forms in which it goes over the wire."""
    if settings.username is None or settings.password is None:
        return ()
    forms = (settings.password, settings.username, f"\0{settings.username}\0{settings.password}")
    return (*(b64encode(form.encode()).decode() for form in forms[::-1]), *forms[:2])


def _context(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    certificates = authority(ca_file)
    if certificates:
        try:
            context.load_verify_locations(cadata=certificates.decode())
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise ProviderSetupError(f"The CA file {ca_file} cannot be used: {error}") from error
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
