"""The mail server of the sandbox from the side of its owner: faults, counts, mailboxes."""

import asyncio
import contextlib
import smtplib
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from email.message import EmailMessage
from typing import Any

import msgspec
import pytest

from tests.providers.sandboxes import Caller, calling
from tests.waiting import until
from tocsin.sandbox import Hang, Refuse, Sandbox, SandboxSettings, SandboxStartError
from tocsin.sandbox.smtp.mail import parse_mail

SENDER, ADA = "notify@acme.example", "ada@example.org"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as running:
        yield running


@pytest.fixture
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox) as made:
        yield made


async def send(port: int, *recipients: str, content: bytes = b"Subject: Hello\r\n\r\nHi.\r\n") -> Any:
    def session() -> Any:
        with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
            return client.sendmail(SENDER, recipients, content)

    return await asyncio.to_thread(session)


async def test_faults_and_counts_are_at_the_control_api(sandbox: Sandbox, caller: Caller) -> None:
    script = {"steps": [{"kind": "refuse", "code": "550 5.1.1"}]}
    put = await caller.json("PUT", f"/_sandbox/faults/targets/{ADA}?provider=smtp", script)
    assert put.status == 200
    assert ADA in put.body["scripts"]

    with pytest.raises(smtplib.SMTPRecipientsRefused):
        await send(sandbox.smtp_port, ADA)
    await send(sandbox.smtp_port, ADA)

    stats = (await caller.json("GET", "/_sandbox/stats?provider=smtp")).body
    assert (stats["requests"], stats["answers"]) == (2, {"550 5.1.1": 1, "OK": 1})
    assert (await caller.json("GET", "/_sandbox/stats")).body["requests"] == 0


async def test_a_code_that_no_mail_server_gives_is_refused(sandbox: Sandbox, caller: Caller) -> None:
    script = {"steps": [{"kind": "refuse", "code": "UNREGISTERED"}]}

    put = await caller.json("PUT", f"/_sandbox/faults/targets/{ADA}?provider=smtp", script)

    assert put.status == 422
    assert "550 5.1.1" in put.body["detail"]
    assert sandbox.faults_of("smtp").active().scripts == {}


async def test_a_mailbox_can_be_looked_into_and_closed(sandbox: Sandbox, caller: Caller) -> None:
    await send(sandbox.smtp_port, ADA)

    mailbox = (await caller.json("GET", f"/_sandbox/phones/{ADA}")).body

    (received,) = mailbox["messages"]
    assert (received["provider"], received["message"]["subject"]) == ("smtp", "Hello")
    assert received["message"]["text"] == "Hi.\n"

    await caller.json("DELETE", f"/_sandbox/phones/{ADA}")
    with pytest.raises(smtplib.SMTPRecipientsRefused, match=r"5\.1\.1"):
        await send(sandbox.smtp_port, ADA)


async def test_a_reset_forgets_mail_faults_and_counts(sandbox: Sandbox) -> None:
    sandbox.faults_of("smtp").script("bob@example.org", Refuse("550 5.1.1"))
    await send(sandbox.smtp_port, ADA)

    sandbox.reset()

    assert sandbox.phones.count == 0
    assert sandbox.stats("smtp").requests == 0
    await send(sandbox.smtp_port, "bob@example.org")


async def test_without_records_mail_is_counted_alone() -> None:
    async with Sandbox(SandboxSettings(record="counts")) as sandbox:
        content = b"X-Tocsin-Delivery-Id: d-1\r\nSubject: Hello\r\n\r\nHi.\r\n"
        await send(sandbox.smtp_port, ADA, content=content)
        await send(sandbox.smtp_port, ADA, content=content)

        stats = sandbox.stats("smtp")
        assert (stats.delivered, stats.distinct_deliveries, stats.duplicates) == (2, 1, 1)
        assert list(sandbox.phones.messages(after=0, limit=9)) == []


async def test_a_sandbox_that_stops_lets_hanging_clients_go() -> None:
    async with Sandbox() as sandbox:
        sandbox.faults_of("smtp").script(ADA, Hang(delivered=True))
        sending = asyncio.create_task(send(sandbox.smtp_port, ADA))
        await until(lambda: "HANG" in sandbox.stats("smtp").answers)
        assert sandbox.phones.count == 1

    with pytest.raises((smtplib.SMTPException, OSError)):
        await sending
    assert sandbox.stats("smtp").in_flight == 0


@pytest.mark.parametrize("listener", ["smtp_port", "smtps_port"])
async def test_a_port_in_use_is_named(listener: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(
            SandboxStartError, match=f"cannot listen on 127.0.0.1:{port}.*choose another port"
        ):
            async with Sandbox(msgspec.convert({listener: port}, SandboxSettings)):
                pass


async def test_a_process_of_its_own_says_where_mail_is_taken() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tocsin.sandbox"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    addresses = msgspec.json.decode(await process.stdout.readline())

    def over_starttls() -> Any:
        with smtplib.SMTP("127.0.0.1", addresses["smtp_port"], timeout=10) as client:
            client.starttls(context=ssl.create_default_context(cafile=addresses["ca_file"]))
            client.login("sandbox", "sandbox")
            return client.sendmail(SENDER, [ADA], b"Subject: Hello\r\n\r\nHi.\r\n")

    with contextlib.ExitStack() as exits:
        exits.callback(process.terminate)
        assert await asyncio.to_thread(over_starttls) == {}
        assert addresses["smtps_port"] != addresses["smtp_port"]
    assert await process.wait() == 0


def test_a_mail_is_taken_apart() -> None:
    mail = EmailMessage()
    mail["Subject"] = "Ünlü"
    mail["Message-ID"] = "<1@acme.example>"
    mail.set_content("Düz metin")
    mail.add_alternative("<p>Süslü</p>", subtype="html")
    mail.add_attachment("not shown", filename="a.txt")

    read = parse_mail(mail.as_bytes())

    assert (read.subject, read.message_id, read.delivery_id) == ("Ünlü", "<1@acme.example>", None)
    assert (read.text, read.html) == ("Düz metin\n", "<p>Süslü</p>\n")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", ""),
        (b"no headers at all", "no headers at all"),
        (b"Content-Type: text/plain; charset=no-such\r\n\r\nHi \xff", "Hi \ufffd"),
        (b"Content-Type: image/png\r\n\r\nxx", None),
        (b"Content-Type: multipart/mixed; boundary=x\r\n\r\nnothing", None),
        (b"Subject: \xc3\xbc\r\n\r\n\xc3\xbc", "ü"),
    ],
)
def test_a_mail_that_is_badly_written_is_taken_apart_as_well_as_can_be(
    content: bytes, text: str | None
) -> None:
    assert parse_mail(content).text == text
