"""What a session does with replies that come together, late, too many or not at all."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.providers.conformance import send_one, send_to
from tests.providers.smtp.smtp_rig import SENDER, SmtpRig
from tests.waiting import until
from tocsin.domain.delivery.outcome import Gone, Outcome, Retry, Sent
from tocsin.providers.smtp.provider import SmtpProvider
from tocsin.providers.smtp.session import MOST_REPLY_BYTES, SmtpConnection, SmtpSession, open_session
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.sandbox import Refuse

WAIT = b"wait"
GREETING = b"250-server\r\n250-PIPELINING\r\n250 SIZE 1000000\r\n"


class ScriptedServer:
    """Answers each command by its verb: as scripted, one answer after the other, and then as usual."""

    def __init__(
        self, answers: dict[str, list[bytes]], greeting: bytes = GREETING, pieces: int = 100_000
    ) -> None:
        self._answers = answers
        self._pieces = pieces
        self._usual = {"EHLO": greeting, "DATA": b"354 go on\r\n"}
        self.commands: list[str] = []
        self.reads: list[bytes] = []
        self.mails: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(b"220 server\r\n")
        rest = b""
        while data := await reader.read(100_000):
            self.reads.append(data)
            rest += data
            while b"\r\n" in rest:
                line, rest = rest.split(b"\r\n", 1)
                verb = line[:4].decode().upper()
                self.commands.append(verb)
                answer = self._answer(verb)
                if answer == WAIT:
                    await reader.read()
                    writer.close()
                    return
                for start in range(0, len(answer), self._pieces):
                    writer.write(answer[start : start + self._pieces])
                    await asyncio.sleep(0)
                if answer.startswith(b"354"):
                    while b"\r\n.\r\n" not in b"\r\n" + rest:
                        data = await reader.read(100_000)
                        if not data:
                            return
                        rest += data
                    content, rest = (b"\r\n" + rest).split(b"\r\n.\r\n", 1)
                    self.mails.append(content)
                    answer = self._answer(".")
                    if answer == WAIT:
                        await reader.read()
                        writer.close()
                        return
                    writer.write(answer)
                if not answer:
                    writer.close()
                    return
        writer.close()

    def _answer(self, verb: str) -> bytes:
        script = self._answers.get(verb, [])
        return script.pop(0) if script else self._usual.get(verb, b"250 ok\r\n")


@asynccontextmanager
async def sending_to(server: ScriptedServer, seconds: float = 5.0) -> AsyncIterator[SmtpProvider]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    provider = SmtpProvider(
        SmtpSettings(
            host="127.0.0.1",
            port=listener.sockets[0].getsockname()[1],
            sender=SENDER,
            security="none",
            connections=1,
            timeout=seconds,
        )
    )
    yield provider
    await provider.aclose()
    listener.close()


@asynccontextmanager
async def session_with(server: ScriptedServer) -> AsyncIterator[SmtpSession]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    session = await open_session(SmtpConnection(hostname="127.0.0.1", port=port, start_tls=False))
    yield session
    session.close()
    listener.close()


async def outcomes_of(server: ScriptedServer, count: int) -> Sequence[Outcome]:
    async with sending_to(server) as provider:
        return [await send_one(provider, f"person{number}@example.org") for number in range(count)]


async def test_a_mail_takes_two_round_trips_with_pipelining() -> None:
    server = ScriptedServer({})

    assert [type(each) for each in await outcomes_of(server, 2)] == [Sent, Sent]
    assert server.commands == ["EHLO", "MAIL", "RCPT", "DATA", "MAIL", "RCPT", "DATA", "QUIT"]
    assert server.reads[1].count(b"\r\n") == 3


async def test_a_server_without_pipelining_gets_one_command_at_a_time() -> None:
    server = ScriptedServer({"RCPT": [b"550 5.1.1 nobody\r\n"]}, greeting=b"250 server\r\n")

    assert [type(each) for each in await outcomes_of(server, 2)] == [Gone, Sent]
    assert server.commands == ["EHLO", "MAIL", "RCPT", "RSET", "MAIL", "RCPT", "DATA", "QUIT"]
    assert all(read.count(b"\r\n") == 1 for read in server.reads[:6])


@pytest.mark.parametrize("refusal", [b"554 no recipients\r\n", b"503 need RCPT\r\n", b"354 go on\r\n"])
async def test_a_refused_recipient_is_one_mails_alone(refusal: bytes) -> None:
    server = ScriptedServer(
        {"RCPT": [b"250 ok\r\n", b"550 5.1.1 nobody\r\n"], "DATA": [b"354 go\r\n", refusal]}
    )

    outcomes = await outcomes_of(server, 3)

    assert [type(each) for each in outcomes] == [Sent, Gone, Sent]
    assert server.connections == 1
    # What a server takes for no recipient is empty.
    assert [bool(mail) for mail in server.mails] == (
        [True, False, True] if refusal.startswith(b"354") else [True, True]
    )


async def test_a_refused_sender_is_reported_before_what_follows_from_it() -> None:
    server = ScriptedServer(
        {"MAIL": [b"452 4.3.1 full\r\n"], "RCPT": [b"503 no\r\n"], "DATA": [b"503 no\r\n"]}
    )

    first, second = await outcomes_of(server, 2)

    assert first == Retry("452 4.3.1", "full")
    assert isinstance(second, Sent)
    assert server.connections == 1


@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA"])
async def test_a_server_that_leaves_amid_the_replies_has_its_reason_reported(verb: str) -> None:
    server = ScriptedServer({verb: [b"421 4.3.2 going down\r\n"]})

    first, second = await outcomes_of(server, 2)

    assert first == Retry("421 4.3.2", "going down")
    assert isinstance(second, Sent)
    assert server.connections == 2


@pytest.mark.parametrize(
    ("verb", "uncertain"), [("MAIL", False), ("RCPT", False), ("DATA", False), (".", True)]
)
async def test_a_connection_that_ends_amid_the_replies_is_a_retry(verb: str, *, uncertain: bool) -> None:
    server = ScriptedServer({verb: [b""]})

    first, second = await outcomes_of(server, 2)

    assert isinstance(first, Retry)
    # Only with its content sent can the server have taken the mail.
    assert (first.code, first.uncertain) == ("network_error", uncertain)
    assert isinstance(second, Sent)


@pytest.mark.parametrize("stray", [b"550 5.1.1 stray\r\n", b"250 ok\r\n" * 9, b"421 4.4.2 idle\r\n", b"2"])
async def test_a_reply_nobody_asked_for_is_never_taken_for_another(stray: bytes) -> None:
    server = ScriptedServer({".": [b"250 ok\r\n" + stray]})

    first, second, third = await outcomes_of(server, 3)

    assert isinstance(first, Sent)
    assert isinstance(second, Sent)
    assert isinstance(third, Sent)
    assert server.connections == 2


@pytest.mark.parametrize(
    "script",
    [
        {"RSET": [b"500 what?\r\n"]},
        {"RSET": [b"421 4.3.2 going down\r\n"]},
        {"DATA": [b"354 go on\r\n"], ".": [b"554 no recipients\r\n"], "RSET": [b""]},
        {"DATA": [b"354 go on\r\n"], ".": [b"421 4.3.2 going down\r\n"]},
    ],
)
async def test_a_mail_is_not_refused_for_the_one_before_it(script: dict[str, list[bytes]]) -> None:
    server = ScriptedServer({"RCPT": [b"550 5.1.1 nobody\r\n"], **script})

    first, second, third = await outcomes_of(server, 3)

    assert isinstance(first, Gone)
    assert isinstance(second, Sent | Retry)
    assert isinstance(third, Sent)
    assert server.connections == 2


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello\r\n",
        b"25\r\n",
        b"\r\n",
        b"\xff\xfe\xfd ok\r\n",
        b"250-\r\n" * (MOST_REPLY_BYTES // 5),
        b"2" * 40_000,
    ],
)
@pytest.mark.parametrize(("verb", "uncertain"), [("MAIL", False), (".", True)])
async def test_what_is_no_reply_is_a_retry_on_another_connection(
    nonsense: bytes, verb: str, *, uncertain: bool
) -> None:
    server = ScriptedServer({verb: [nonsense]})

    first, second = await outcomes_of(server, 2)

    assert isinstance(first, Retry)
    assert (first.code, first.uncertain) == ("unreadable_answer", uncertain)
    assert isinstance(second, Sent)
    assert server.connections == 2


async def test_replies_that_come_byte_by_byte_are_put_together() -> None:
    server = ScriptedServer({"RCPT": [b"550-5.1.1 nobody\r\n550 5.1.1 here\r\n"]}, pieces=1)

    assert [type(each) for each in await outcomes_of(server, 2)] == [Gone, Sent]


async def test_a_dot_at_the_start_of_a_line_ends_no_mail() -> None:
    server = ScriptedServer({})
    async with session_with(server) as session:
        await session.send_mail("a@example.org", "b@example.org", b".\r\n..\r\nQUIT\r\n", utf8=False)

    assert server.mails == [b"\r\n..\r\n...\r\nQUIT"]


@pytest.mark.parametrize(
    ("recipient", "content"),
    [
        *(("b@example.org", content) for content in (b"a\n.\nb\r\n", b"a\r.\rb\r\n", b"a\r\nb", b"")),
        ("b@example.org>\r\nRCPT TO:<c@example.org", b"a\r\n"),
        ("b@example.org SIZE=1", b"a\r\n"),
    ],
)
async def test_nothing_that_could_be_a_command_of_its_own_is_sent(recipient: str, content: bytes) -> None:
    server = ScriptedServer({})
    async with session_with(server) as session:
        with pytest.raises(ValueError, match=r"content|address"):
            await session.send_mail("a@example.org", recipient, content, utf8=False)

    assert server.commands == ["EHLO"]


async def test_a_cancelled_mail_closes_its_connection_and_no_other_gets_its_reply() -> None:
    server = ScriptedServer({"DATA": [WAIT]})
    async with sending_to(server) as provider:
        sending = asyncio.create_task(send_one(provider, "ada@example.org"))
        await until(lambda: "DATA" in server.commands)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

        assert isinstance(await send_one(provider, "bob@example.org"), Sent)
    assert server.connections == 2


@pytest.mark.parametrize(("verb", "uncertain"), [("RCPT", False), (".", True)])
async def test_a_mail_that_is_not_answered_in_time_is_a_retry(verb: str, *, uncertain: bool) -> None:
    server = ScriptedServer({verb: [WAIT]})
    async with sending_to(server, seconds=0.2) as provider:
        first, second = [await send_one(provider, "ada@example.org") for _ in range(2)]

    assert isinstance(first, Retry)
    assert (first.code, first.uncertain) == ("timeout", uncertain)
    assert isinstance(second, Sent)


async def test_refusals_and_mails_are_the_same_with_pipelining_and_without(rig: SmtpRig) -> None:
    rig.sandbox.smtp.offers_pipelining = False
    provider = rig.provider(concurrency=1)
    rig.script("gone", Refuse("550 5.1.1"))
    outcomes = [await send_to(rig, provider, name) for name in ("ada", "gone", "bob")]
    rig.sandbox.smtp.offers_pipelining = True
    other = rig.provider(concurrency=1)
    rig.script("gone", Refuse("550 5.1.1"))
    outcomes += [await send_to(rig, other, name) for name in ("ada", "gone", "bob")]

    assert [type(each) for each in outcomes] == [Sent, Gone, Sent] * 2
