"""An SMTP session after its login: a mail takes two round trips if the server offers PIPELINING (RFC 2920).

aiosmtplib opens the connection, and then the session takes over its transport: aiosmtplib sends one command
at a time and drops replies that come together.
"""

import asyncio
import re
from typing import NamedTuple, cast

from aiosmtplib import (
    SMTP,
    SMTPDataError,
    SMTPHeloError,
    SMTPNotSupported,
    SMTPRecipientRefused,
    SMTPResponseException,
    SMTPSenderRefused,
    SMTPServerDisconnected,
)

CLOSING = 421
UNREADABLE = -1
MOST_REPLY_BYTES = 32_768

_OK = 250
_WILL_FORWARD = 251
_START_CONTENT = 354
_REFUSES_FROM = 400
_REPLY_LINE = re.compile(rb"([2-5]\d\d)(-|\s|\Z)(.*)", re.DOTALL)
_NOT_IN_AN_ADDRESS = re.compile(rb"[\x00-\x20\x7f<>]")


class Reply(NamedTuple):
    """A reply of the server; several lines are one text."""

    code: int
    text: str


class SmtpConnection(SMTP):
    """A connection that closes at once: over TLS, a plain close would wait for the peer to agree."""

    def close(self) -> None:
        """Abort the transport, whatever is under way."""
        transport = cast("asyncio.WriteTransport | None", self.transport)
        super().close()
        # Those of uvloop are of no class of asyncio.
        if transport is not None:
            transport.abort()


class SmtpSession(asyncio.Protocol):
    """Sends one mail at a time and matches replies to commands by their number.

    It keeps how many messages it was lent for and since when it is idle. A reply that no
    command asked for, or that cannot be parsed, closes it: the next reply could be taken for another one's.
    """

    def __init__(
        self, transport: asyncio.WriteTransport, *, pipelining: bool, size: bool, smtputf8: bool
    ) -> None:
        self.messages = 0
        self.idle_since = 0.0
        self.content_sent = False
        """Whether the server may have taken the mail: nothing before its content makes it one."""
        self._transport = transport
        self._pipelining = pipelining
        self._size = size
        self._smtputf8 = smtputf8
        self._is_open = True
        self._fault: Exception | None = None
        self._rest = b""
        self._lines: list[bytes] = []
        self._line_bytes = 0
        self._replies: list[Reply] = []
        # Replies not received yet, and how many of the next ones belong to the reset after a refused mail.
        self._due = 0
        self._of_reset = 0
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether another command can be sent."""
        return self._is_open and not self._transport.is_closing()

    async def send_mail(self, sender: str, recipient: str, content: bytes, *, utf8: bool) -> None:
        """Send one mail; raise what the server refused: the sender, the recipient or the content."""
        if utf8 and not self._smtputf8:
            raise SMTPNotSupported("SMTPUTF8 is not supported by this server")
        self.content_sent = False
        commands = self._envelope(sender.encode(), recipient.encode(), len(content), utf8=utf8)
        text = _transparent(content)
        replies: list[Reply] = []
        for group in (b"".join(commands),) if self._pipelining else commands:
            replies += await self._exchange(group, len(commands) if self._pipelining else 1)
            error = _envelope_error(replies, sender, recipient)
            if error is not None:
                self._reset(replies)
                raise error
        self.content_sent = self.is_open
        (reply,) = await self._exchange(text, 1)
        if reply.code != _OK:
            raise SMTPDataError(*reply)

    async def noop(self) -> None:
        """Check that the server still answers."""
        (reply,) = await self._exchange(b"NOOP\r\n", 1)
        if reply.code >= _REFUSES_FROM:
            raise SMTPResponseException(*reply)

    async def quit(self) -> None:
        """Take leave of the server, whatever it replies."""
        await self._exchange(b"QUIT\r\n", 1)

    def close(self) -> None:
        """Abort the transport, whatever is under way."""
        self._is_open = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse the replies that are complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self._is_open:
                return
            self._read_line(line)
        if not self._due and (self._rest or self._lines):
            self.close()
        elif len(self._rest) > MOST_REPLY_BYTES:
            self._fail(SMTPResponseException(UNREADABLE, "the reply is too long"))

    def connection_lost(self, exc: Exception | None) -> None:
        """End what waits for a reply."""
        self._is_open = False
        if self._fault is None:
            self._fault = SMTPServerDisconnected("the connection was lost")
            self._fault.__cause__ = exc
        self._wake()

    def _envelope(self, sender: bytes, recipient: bytes, size: int, *, utf8: bool) -> tuple[bytes, ...]:
        # Addresses were parsed before; a line break in one would be a command of its own.
        if _NOT_IN_AN_ADDRESS.search(sender) or _NOT_IN_AN_ADDRESS.search(recipient):
            raise ValueError("an address has a character that SMTP does not allow")
        options = (b" SIZE=%d" % size if self._size else b"") + (b" SMTPUTF8" if utf8 else b"")
        return (b"MAIL FROM:<%b>%b\r\n" % (sender, options), b"RCPT TO:<%b>\r\n" % recipient, b"DATA\r\n")

    async def _exchange(self, commands: bytes, count: int) -> list[Reply]:
        """Write commands and return their replies; fewer if one of them refuses and ends the connection."""
        if self._due and not self._pipelining:
            await self._wait()
        if not self.is_open:
            raise self._fault or SMTPServerDisconnected("the connection was lost")
        self._due += count
        self._transport.write(commands)
        await self._wait()
        replies, self._replies, self._of_reset = self._replies[self._of_reset :], [], 0
        if self._fault and not any(reply.code >= _REFUSES_FROM for reply in replies):
            raise self._fault
        return replies

    async def _wait(self) -> None:
        """Wait until every reply is there or no other will come."""
        if self._due and self._fault is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _reset(self, replies: list[Reply]) -> None:
        """End a refused mail; the next mail skips the replies, so nobody waits for them."""
        if not self.is_open:
            return
        # A server that wants content for no recipient gets none (RFC 2920, 3.1).
        wants_content = replies[-1].code == _START_CONTENT
        self._of_reset = 2 if wants_content else 1
        self._due = self._of_reset
        self._transport.write(b".\r\nRSET\r\n" if wants_content else b"RSET\r\n")

    def _read_line(self, line: bytes) -> None:
        parts = _REPLY_LINE.fullmatch(line)
        self._line_bytes += len(line) + 1
        if parts is None or self._line_bytes > MOST_REPLY_BYTES:
            self._fail(SMTPResponseException(UNREADABLE, "the reply has no code or is too long"))
            return
        code, separator, text = parts.groups()
        self._lines.append(text.strip())
        if separator != b"-":
            lines, self._lines, self._line_bytes = self._lines, [], 0
            self._add_reply(Reply(int(code), b"\n".join(lines).decode(errors="surrogateescape")))

    def _add_reply(self, reply: Reply) -> None:
        if not self._due:
            self.close()
            return
        self._due -= 1
        self._replies.append(reply)
        if reply.code == CLOSING:
            self._fail(SMTPResponseException(*reply))
        elif len(self._replies) == self._of_reset and reply.code != _OK:
            # The refused mail is still open, and the next one would be refused for it.
            self._fail(SMTPServerDisconnected("the server does not reset a mail"))
        elif not self._due:
            self._wake()

    def _fail(self, error: Exception) -> None:
        self._fault = self._fault or error
        self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def open_session(connection: SmtpConnection) -> SmtpSession:
    """Connect, log in and take over the transport."""
    try:
        await connection.connect()
        if connection.is_ehlo_or_helo_needed:
            await _greet(connection)
    except BaseException:
        connection.close()
        raise
    transport = cast("asyncio.Transport | None", connection.transport)
    if transport is None:
        raise SMTPServerDisconnected("the connection was lost")
    session = SmtpSession(
        transport,
        pipelining=connection.supports_extension("pipelining"),
        size=connection.supports_extension("size"),
        smtputf8=connection.supports_extension("smtputf8"),
    )
    transport.set_protocol(session)
    return session


async def _greet(connection: SmtpConnection) -> None:
    try:
        await connection.ehlo()
    except SMTPHeloError:
        await connection.helo()


def _envelope_error(replies: list[Reply], sender: str, recipient: str) -> SMTPResponseException | None:
    """Return the first refusal among the replies to MAIL, RCPT and DATA."""
    for stage, reply in enumerate(replies):
        if stage == 0 and reply.code != _OK:
            return SMTPSenderRefused(*reply, sender)
        if stage == 1 and reply.code not in {_OK, _WILL_FORWARD}:
            return SMTPRecipientRefused(*reply, recipient)
        if stage == 2 and reply.code != _START_CONTENT:  # noqa: PLR2004 - the third command
            return SMTPDataError(*reply)
    return None


def _transparent(content: bytes) -> bytes:
    """Double the dot that begins a line (RFC 5321, 4.5.2), and end the content."""
    # A lone CR or LF is the end of a line to some servers: what follows could be a command (SMTP smuggling).
    ends = content.count(b"\r\n")
    if content.count(b"\r") != ends or content.count(b"\n") != ends or not content.endswith(b"\r\n"):
        raise ValueError("the content has a line that does not end in CR LF")
    if content.startswith(b"."):
        content = b"." + content
    return content.replace(b"\r\n.", b"\r\n..") + b".\r\n"
