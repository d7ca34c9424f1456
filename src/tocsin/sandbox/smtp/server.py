"""A mail server whose mailboxes are the sandbox's phones: plain with STARTTLS, and TLS from the start."""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, AnyStr, ClassVar, Literal

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from aiosmtpd.smtp import Session as State

from tocsin.sandbox.certificates import Certificates
from tocsin.sandbox.errors import SandboxStartError
from tocsin.sandbox.faults.rules import Cut, Fault, Hang, Refuse
from tocsin.sandbox.service import Surroundings
from tocsin.sandbox.smtp.mail import read_mail
from tocsin.sandbox.smtp.replies import REFUSALS, reply
from tocsin.sandbox.tally import Tally

USERNAME = "sandbox"
PASSWORD = "sandbox"  # noqa: S105 - the one account of a server that sends nothing anywhere
HOST_NAME = "mail.sandbox.example"

Mode = Literal["plain", "tls"]


class Smtp:
    """Takes mail for every address, with one account for those who log in.

    A fault scripted for an address befalls the next mail to it; one scripted for a user name the next login.
    """

    name: ClassVar[str] = "smtp"

    def __init__(self, surroundings: Surroundings) -> None:
        self.faults = surroundings.board(frozenset(REFUSALS))
        self.tally = Tally()
        self.connections = 0
        """How many connections were ever made."""
        self.questions = 0
        """How often a client asked, by NOOP, whether its connection lives."""
        self.offers_utf8 = True
        """Whether new connections take addresses beyond ASCII."""
        self._phones = surroundings.phones
        self._settings = surroundings.settings
        self._sessions: set[Session] = set()
        self._closing = asyncio.Event()
        self._all_gone = asyncio.Event()

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        return len(self._sessions)

    async def open(self, certificates: Certificates, exits: AsyncExitStack) -> tuple[int, int]:
        """Listen, and give the ports: plain with STARTTLS, and TLS from the start."""
        # aiosmtpd logs every command with the address in it, and warns of its own old names.
        logging.getLogger("mail.log").setLevel(logging.ERROR)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.chain, certificates.key)
        exits.push_async_callback(self._close)
        plain = await self._listen("plain", self._settings.smtp_port, context, exits)
        secure = await self._listen("tls", self._settings.smtps_port, context, exits)
        return plain, secure

    def meet(self, session: "Session") -> None:
        """Count a connection, once."""
        if session not in self._sessions:
            self.connections += 1
            self._sessions.add(session)
        self._all_gone.clear()

    def part(self, session: "Session") -> None:
        """Count a connection as gone."""
        self._sessions.discard(session)
        if not self._sessions:
            self._all_gone.set()

    def login(self, given: LoginPassword) -> str | None:
        """Say why a login is refused, if it is."""
        username = given.login.decode(errors="replace")
        fault = self.faults.befalls(username)
        if isinstance(fault, Refuse):
            return self._refuse(fault.code)
        if (username, given.password.decode(errors="replace")) != (USERNAME, PASSWORD):
            return self._refuse("535 5.7.8")
        return None

    def begin(self, sender: str) -> str | None:
        """Say why a sender may not begin a mail, if so."""
        if self.faults.messages_outage():
            return self._refuse("421 4.3.2")
        if self.faults.take_project_quota(sender) is not None:
            return self._refuse("421 4.7.0")
        return None

    def judge(self, address: str) -> str | Fault:
        """Say why an address is refused, or what befalls the mail to it later."""
        fault = self.faults.befalls(address)
        if isinstance(fault, Refuse) and REFUSALS[fault.code].stage == "recipient":
            return self._refuse(fault.code, address)
        if not self._phones.is_live(address):
            return self._refuse("550 5.1.1", address)
        if self.faults.take_device_quota(address) is not None:
            return self._refuse("450 4.7.1", address)
        return fault

    async def finish(self, session: "Session", content: bytes) -> str:
        """Let a mail arrive in its mailboxes, or meet the first fault that befalls one of them."""
        for address, fault in session.recipients:
            if isinstance(fault, Refuse):
                return self._refuse(fault.code, address)
            if isinstance(fault, Hang | Cut):
                self.tally.answer(type(fault).__name__.upper())
                if fault.delivered:
                    self._deliver(session, content)
                if isinstance(fault, Cut):
                    session.abort()
                # The session's end cancels this.
                await self._closing.wait()
                return reply("421 4.3.2")
        self._deliver(session, content)
        self.tally.answer("OK")
        delay = self.faults.delay()
        if delay:
            await asyncio.sleep(delay)
        return "250 2.0.0 OK: queued"

    def _deliver(self, session: "Session", content: bytes) -> None:
        mail = read_mail(content, headers_only=self._settings.record == "counts")
        for address, _ in session.recipients:
            self.tally.deliver(mail.delivery_id)
            self._phones.receive(
                provider=self.name,
                target_kind="token",
                target=address,
                message_id=mail.message_id,
                delivery_id=mail.delivery_id,
                message={
                    "notification": {"title": mail.subject},
                    "subject": mail.subject,
                    "text": mail.text,
                    "html": mail.html,
                    "headers": mail.headers,
                },
            )

    def _refuse(self, code: str, address: str = "") -> str:
        self.tally.answer(code)
        return reply(code, address)

    async def _listen(self, mode: Mode, port: int, context: ssl.SSLContext, exits: AsyncExitStack) -> int:
        def greet() -> asyncio.Protocol:
            if self.faults.messages_outage():
                return TurnedAway(self.tally)
            return Session(self, mode, context)

        host = self._settings.host
        try:
            server = await asyncio.get_running_loop().create_server(
                greet, host, port, ssl=context if mode == "tls" else None
            )
        except OSError as error:
            raise SandboxStartError(
                f"the sandbox cannot listen on {host}:{port}: {error.strerror or error}; "
                "choose another port, or 0 for a free one"
            ) from error
        exits.callback(server.close)
        taken: int = server.sockets[0].getsockname()[1]
        return taken

    async def _close(self) -> None:
        self._closing.set()
        for session in list(self._sessions):
            session.abort()
        if self._sessions:
            await self._all_gone.wait()


class TurnedAway(asyncio.Protocol):
    """A connection that ends with its greeting, as in an outage."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say that nothing is taken, and hang up."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - asyncio gives no other here
        self._tally.arrive("smtp")
        self._tally.answer("421 4.3.2")
        self._tally.leave()
        transport.write(f"{reply('421 4.3.2')}\r\n".encode())
        transport.close()


class Session(SMTP):
    """One connection of a client, and the mail it is about to hand over."""

    def __init__(self, server: Smtp, mode: Mode, context: ssl.SSLContext) -> None:
        self._server = server
        self._mode = mode
        self._under_way = False
        self.recipients: list[tuple[str, Fault]] = []
        super().__init__(
            Hooks(server),
            hostname=HOST_NAME,
            ident="ESMTP",
            enable_SMTPUTF8=server.offers_utf8,
            tls_context=context if mode == "plain" else None,
            auth_require_tls=False,
            authenticator=_login,
            loop=asyncio.get_running_loop(),
        )

    @property
    def server(self) -> Smtp:
        """The server that this connection was made to."""
        return self._server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection; called again once STARTTLS has wrapped it."""
        self._server.meet(self)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Count the connection as gone, and its mail with it."""
        self.rest()
        self._server.part(self)
        super().connection_lost(error)

    async def push(self, status: AnyStr) -> None:
        """Answer; after 421 a server hangs up."""
        await super().push(status)
        if status[:3] == "421" and self.transport is not None:
            self.transport.close()

    def begin(self) -> None:
        """Count a mail that begins."""
        self.rest()
        self._under_way = True
        protocol = "smtps" if self._mode == "tls" else "smtp+starttls" if self._tls_protocol else "smtp"
        self._server.tally.arrive(protocol)

    def rest(self) -> None:
        """Count the mail under way, if there is one, as ended."""
        self.recipients = []
        if self._under_way:
            self._under_way = False
            self._server.tally.leave()

    def abort(self) -> None:
        """Break the connection off."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()


class Hooks:
    """What aiosmtpd calls for each command that it has read and found in order."""

    def __init__(self, server: Smtp) -> None:
        self._server = server

    async def handle_MAIL(  # noqa: N802 - the name that aiosmtpd looks for
        self, session: Session, _: State, envelope: Envelope, address: str, options: Sequence[str]
    ) -> str:
        """Begin a mail."""
        session.begin()
        refused = self._server.begin(address)
        if refused:
            return refused
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 OK"

    async def handle_RCPT(  # noqa: N802 - the name that aiosmtpd looks for
        self, session: Session, _: State, envelope: Envelope, address: str, __: Sequence[str]
    ) -> str:
        """Take a recipient."""
        judged = self._server.judge(address)
        if isinstance(judged, str):
            return judged
        session.recipients.append((address, judged))
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, session: Session, _: State, envelope: Envelope) -> str:  # noqa: N802
        """Take the content."""
        content = envelope.original_content or b""
        try:
            return await self._server.finish(session, content)
        finally:
            session.rest()

    async def handle_NOOP(self, _: Session, __: State, ___: Envelope, ____: str) -> str:  # noqa: N802
        """Tell that the connection lives."""
        self._server.questions += 1
        return "250 2.0.0 OK"

    async def handle_RSET(self, session: Session, _: State, __: Envelope) -> str:  # noqa: N802
        """Forget the mail that was begun."""
        session.rest()
        return "250 2.0.0 OK"


def _login(session: Any, _: State, __: Envelope, ___: str, given: Any) -> AuthResult:
    refused = session.server.login(given)
    return AuthResult(success=refused is None, handled=False, message=refused, auth_data=given)
