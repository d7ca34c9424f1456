"""Stand-in for a mail server, with a plain port that offers STARTTLS and a port with TLS from the start."""

import asyncio
import logging
import ssl
from contextlib import AsyncExitStack
from typing import Any, AnyStr, Literal, cast

from aiosmtpd.smtp import MISSING, SMTP, AuthResult, Envelope, LoginPassword
from aiosmtpd.smtp import Session as State

from tocsin.sandbox.certificates import Certificates
from tocsin.sandbox.counters import Counters
from tocsin.sandbox.errors import cannot_listen
from tocsin.sandbox.faults.rules import Cut, Fault, Hang, Refuse
from tocsin.sandbox.phones import Push
from tocsin.sandbox.smtp.mail import parse_mail
from tocsin.sandbox.smtp.replies import REFUSALS, reply
from tocsin.sandbox.stand_in import SandboxContext, StandIn

USERNAME = "sandbox"
PASSWORD = "sandbox"  # noqa: S105 - the one account of a server that sends nothing anywhere
HOST_NAME = "mail.sandbox.example"

Mode = Literal["plain", "tls"]


class Smtp(StandIn):
    """Accepts mail for every address, with one account for clients that log in.

    A fault scripted for an address applies to the next mail to it, one scripted for a user name to the next
    login.
    """

    name = "smtp"
    codes = frozenset(REFUSALS)

    def __init__(self, context: SandboxContext) -> None:
        super().__init__(context)
        self.connections = 0
        """How many connections were made in all."""
        self.noop_commands = 0
        """How often a client checked its connection with NOOP."""
        self.offers_utf8 = True
        """Whether new connections accept addresses beyond ASCII."""
        self.offers_pipelining = True
        """Whether new connections take commands together."""
        self.sessions: set[SmtpPeer] = set()
        """The open connections."""
        self._settings = context.settings
        self._closing = asyncio.Event()
        self._all_closed = asyncio.Event()

    async def open(self, certificates: Certificates, exits: AsyncExitStack) -> tuple[int, int]:
        """Listen, and return the ports: plain with STARTTLS, and TLS from the start."""
        # aiosmtpd logs every command with the address in it, and warns of its own old names.
        logging.getLogger("mail.log").setLevel(logging.ERROR)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.chain, certificates.key)
        exits.push_async_callback(self._close)
        plain = await self._listen("plain", self._settings.smtp_port, context, exits)
        secure = await self._listen("tls", self._settings.smtps_port, context, exits)
        return plain, secure

    def add_session(self, session: "SmtpPeer") -> None:
        """Count a connection, once."""
        if session not in self.sessions:
            self.connections += 1
            self.sessions.add(session)
        self._all_closed.clear()

    def remove_session(self, session: "SmtpPeer") -> None:
        """Count a connection as closed."""
        self.sessions.discard(session)
        if not self.sessions:
            self._all_closed.set()

    def authenticate(self, _: Any, __: State, ___: Envelope, ____: str, given: LoginPassword) -> AuthResult:
        """Check a login; aiosmtpd calls this."""
        username, password = (text.decode(errors="replace") for text in (given.login, given.password))
        fault = self.faults.next_fault(username)
        refused = None
        if isinstance(fault, Refuse):
            refused = self._refuse(fault.code)
        elif (username, password) != (USERNAME, PASSWORD):
            refused = self._refuse("535 5.7.8")
        return AuthResult(success=refused is None, handled=False, message=refused, auth_data=given)

    # aiosmtpd looks for hooks by these names; MISSING leaves a well-formed command to its own answer.

    async def handle_EHLO(  # noqa: N802
        self, _: "SmtpPeer", state: State, __: Envelope, hostname: str, extensions: list[str]
    ) -> list[str]:
        """List the extensions."""
        state.host_name = hostname
        return [*extensions[:-1], *(["250-PIPELINING"] if self.offers_pipelining else []), extensions[-1]]

    async def handle_MAIL(self, session: "SmtpPeer", _: State, __: Envelope, sender: str, *___: Any) -> Any:  # noqa: N802
        """Start a mail."""
        session.start_mail()
        if self.faults.outage_of("messages"):
            return self._refuse("421 4.3.2")
        if self.faults.take_project_quota(sender) is not None:
            return self._refuse("421 4.7.0")
        return MISSING

    async def handle_RCPT(self, session: "SmtpPeer", _: State, __: Envelope, address: str, *___: Any) -> Any:  # noqa: N802
        """Add a recipient, with the fault that the mail to it meets later."""
        fault = self.faults.next_fault(address)
        if isinstance(fault, Refuse) and REFUSALS[fault.code].stage == "recipient":
            return self._refuse(fault.code, address)
        if not self._phones.is_registered(address):
            return self._refuse("550 5.1.1", address)
        if self.faults.take_device_quota(address) is not None:
            return self._refuse("450 4.7.1", address)
        session.recipients.append((address, fault))
        return MISSING

    async def handle_DATA(self, session: "SmtpPeer", _: State, envelope: Envelope) -> str:  # noqa: N802
        """Deliver the mail."""
        try:
            return await self._deliver(session, envelope.original_content or b"")
        finally:
            session.end_mail()

    async def handle_NOOP(self, *_: Any) -> Any:  # noqa: N802
        """Count a check of the connection."""
        self.noop_commands += 1
        return MISSING

    async def handle_RSET(self, session: "SmtpPeer", *_: Any) -> Any:  # noqa: N802
        """Forget the current mail."""
        session.end_mail()
        return MISSING

    async def _deliver(self, session: "SmtpPeer", content: bytes) -> str:
        """Deliver a mail to its mailboxes, or apply the first fault of one of them; return the reply."""
        for address, fault in session.recipients:
            if isinstance(fault, Refuse):
                return self._refuse(fault.code, address)
            if isinstance(fault, Hang | Cut):
                self.counters.count_answer(type(fault).__name__.upper())
                if fault.delivered:
                    self._store(session, content)
                if isinstance(fault, Cut):
                    session.abort()
                # The end of the session cancels this.
                await self._closing.wait()
                return reply("421 4.3.2")
        self._store(session, content)
        self.counters.count_answer("OK")
        await asyncio.sleep(self.faults.delay())
        return "250 2.0.0 OK: queued"

    def _store(self, session: "SmtpPeer", content: bytes) -> None:
        mail = parse_mail(content, headers_only=self._settings.record == "counts")
        message = {
            "notification": {"title": mail.subject},
            "subject": mail.subject,
            "text": mail.text,
            "html": mail.html,
            "headers": mail.headers,
        }
        for address, _ in session.recipients:
            push = Push(
                target=address, message_id=mail.message_id, delivery_id=mail.delivery_id, message=message
            )
            self._receive(push)

    def _refuse(self, code: str, address: str = "") -> str:
        self.counters.count_answer(code)
        return reply(code, address)

    async def _listen(self, mode: Mode, port: int, context: ssl.SSLContext, exits: AsyncExitStack) -> int:
        def accept() -> asyncio.Protocol:
            if self.faults.outage_of("messages"):
                return OutageConnection(self.counters)
            return SmtpPeer(self, mode, context)

        host = self._settings.host
        try:
            server = await asyncio.get_running_loop().create_server(
                accept, host, port, ssl=context if mode == "tls" else None
            )
        except OSError as error:
            raise cannot_listen(host, port, error) from error
        exits.callback(server.close)
        return int(server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        self._closing.set()
        for session in list(self.sessions):
            session.abort()
        if self.sessions:
            await self._all_closed.wait()


class OutageConnection(asyncio.Protocol):
    """A connection that ends with its greeting."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse and close the connection."""
        self._counters.start_request("smtp")
        self._counters.count_answer("421 4.3.2")
        self._counters.end_request()
        # Those of uvloop are of no class of asyncio.
        writable = cast("asyncio.WriteTransport", transport)
        writable.write(f"{reply('421 4.3.2')}\r\n".encode())
        writable.close()


class SmtpPeer(SMTP):
    """One connection of a client, and the recipients of its current mail."""

    def __init__(self, server: Smtp, mode: Mode, context: ssl.SSLContext) -> None:
        self.server = server
        self._mode = mode
        self._has_mail = False
        self._ended = asyncio.Event()
        self._held = b""
        self.recipients: list[tuple[str, Fault]] = []
        super().__init__(
            server,
            hostname=HOST_NAME,
            ident="ESMTP",
            enable_SMTPUTF8=server.offers_utf8,
            tls_context=context if mode == "plain" else None,
            auth_require_tls=False,
            authenticator=server.authenticate,
            loop=asyncio.get_running_loop(),
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection; called again once STARTTLS has wrapped it."""
        self.server.add_session(self)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Count the connection as closed, and end its mail."""
        self.end_mail()
        self.server.remove_session(self)
        self._ended.set()
        super().connection_lost(error)

    async def push(self, status: AnyStr) -> None:
        """Send a reply; 421 also closes the connection.

        A plain 250 waits for the replies to commands that came together with its own (RFC 2920, 3.2).
        """
        line = cast("str | bytes", status)
        if isinstance(line, str):
            line = line.encode()
        if not self._held:
            asyncio.get_running_loop().call_soon(self._flush)
        self._held += line + b"\r\n"
        if line.startswith(b"250 "):
            return
        self._flush()
        if line.startswith(b"421") and self.transport is not None:
            self.transport.close()
            # What the client sent together with it is not read any more.
            await self._ended.wait()

    def _flush(self) -> None:
        if self._held and self.transport is not None:
            cast("asyncio.WriteTransport", self.transport).write(self._held)
        self._held = b""

    def start_mail(self) -> None:
        """Count a new mail."""
        self.end_mail()
        self._has_mail = True
        protocol = "smtps" if self._mode == "tls" else "smtp+starttls" if self._tls_protocol else "smtp"
        self.server.counters.start_request(protocol)

    def end_mail(self) -> None:
        """Forget the current mail, if there is one."""
        self.recipients = []
        if self._has_mail:
            self._has_mail = False
            self.server.counters.end_request()

    def abort(self) -> None:
        """Abort the connection."""
        if self.transport is not None:
            cast("asyncio.WriteTransport", self.transport).abort()
