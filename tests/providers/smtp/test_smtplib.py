"""The stand-in as Python's own mail client meets it."""

import asyncio
import smtplib
import ssl
from collections.abc import AsyncIterator, Callable
from email.message import EmailMessage
from typing import TypeVar

import pytest

from tocsin.sandbox import Cut, Latency, Outage, Quota, Refuse, Sandbox

T = TypeVar("T")
HOST = "127.0.0.1"
LONGEST = 10.0


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as running:
        yield running


def a_mail(*recipients: str, subject: str = "Hello") -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "notify@acme.example"
    mail["To"] = ", ".join(recipients)
    mail["Subject"] = subject
    mail["X-Tocsin-Delivery-Id"] = "d-1"
    mail.set_content("Merhaba, dünya.\n")
    mail.add_alternative("<p>Merhaba, <b>dünya</b>.</p>\n", subtype="html")
    return mail


def context_of(sandbox: Sandbox) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(sandbox.ca_file))


def plain(sandbox: Sandbox) -> smtplib.SMTP:
    return smtplib.SMTP(HOST, sandbox.smtp_port, timeout=LONGEST)


def over_starttls(sandbox: Sandbox) -> smtplib.SMTP:
    client = plain(sandbox)
    client.starttls(context=context_of(sandbox))
    return client


def over_tls(sandbox: Sandbox) -> smtplib.SMTP:
    return smtplib.SMTP_SSL(HOST, sandbox.smtps_port, context=context_of(sandbox), timeout=LONGEST)


Connect = Callable[[Sandbox], smtplib.SMTP]
EVERY_WAY = pytest.mark.parametrize(
    ("connect", "protocol"),
    [(plain, "smtp"), (over_starttls, "smtp+starttls"), (over_tls, "smtps")],
    ids=["plain", "starttls", "tls"],
)


async def speak(sandbox: Sandbox, connect: Connect, work: Callable[[smtplib.SMTP], T]) -> T:
    """Let the client, which blocks, work on a thread."""

    def session() -> T:
        with connect(sandbox) as client:
            return work(client)

    return await asyncio.to_thread(session)


@EVERY_WAY
async def test_a_mail_arrives_whole(sandbox: Sandbox, connect: Connect, protocol: str) -> None:
    mail = a_mail("ada@example.org", subject="Müşteri — 👋")

    refused = await speak(sandbox, connect, lambda client: client.send_message(mail))

    assert refused == {}
    (arrived,) = sandbox.phones.messages(after=0, limit=10)
    assert (arrived.provider, arrived.target, arrived.delivery_id) == ("smtp", "ada@example.org", "d-1")
    assert arrived.message["subject"] == "Müşteri — 👋"
    assert arrived.message["text"] == "Merhaba, dünya.\n"
    assert arrived.message["html"] == "<p>Merhaba, <b>dünya</b>.</p>\n"
    assert arrived.message["headers"]["From"] == "notify@acme.example"
    assert sandbox.stats("smtp").protocols == {protocol: 1}


@EVERY_WAY
async def test_one_account_may_log_in(sandbox: Sandbox, connect: Connect, protocol: str) -> None:
    def log_in(client: smtplib.SMTP) -> tuple[int, bytes]:
        client.login("sandbox", "sandbox")
        client.send_message(a_mail("ada@example.org"))
        return client.noop()

    assert (await speak(sandbox, connect, log_in))[0] == 250
    assert sandbox.stats("smtp").protocols == {protocol: 1}


@EVERY_WAY
async def test_a_wrong_password_is_refused(sandbox: Sandbox, connect: Connect, protocol: str) -> None:
    with pytest.raises(smtplib.SMTPAuthenticationError) as caught:
        await speak(sandbox, connect, lambda client: client.login("sandbox", "guess"))

    assert caught.value.smtp_code == 535
    assert sandbox.stats("smtp").protocols == {}, protocol


async def test_a_login_can_be_made_to_fail(sandbox: Sandbox) -> None:
    sandbox.faults_of("smtp").script("sandbox", Refuse("454 4.7.0"), repeat=True)

    with pytest.raises(smtplib.SMTPAuthenticationError) as caught:
        await speak(sandbox, over_tls, lambda client: client.login("sandbox", "sandbox"))

    assert caught.value.smtp_code == 454


async def test_of_several_recipients_one_can_be_refused(sandbox: Sandbox) -> None:
    sandbox.phones.unregister("gone@example.org")
    mail = a_mail("ada@example.org", "gone@example.org", "bob@example.org")

    refused = await speak(sandbox, plain, lambda client: client.send_message(mail))

    assert refused == {"gone@example.org": (550, b"5.1.1 <gone@example.org>: no such user here")}
    assert [each.target for each in sandbox.phones.messages(after=0, limit=9)] == [
        "ada@example.org",
        "bob@example.org",
    ]
    assert sandbox.stats("smtp").answers == {"550 5.1.1": 1, "OK": 1}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("550 5.1.1", smtplib.SMTPRecipientsRefused),
        ("450 4.2.1", smtplib.SMTPRecipientsRefused),
        ("552 5.3.4", smtplib.SMTPDataError),
        ("554 5.6.0", smtplib.SMTPDataError),
    ],
)
async def test_a_scripted_refusal_is_told_and_the_connection_goes_on(
    sandbox: Sandbox, code: str, kind: type[smtplib.SMTPException]
) -> None:
    sandbox.faults_of("smtp").script("ada@example.org", Refuse(code))

    def send_twice(client: smtplib.SMTP) -> smtplib.SMTPException:
        with pytest.raises(kind) as caught:
            client.send_message(a_mail("ada@example.org"))
        client.send_message(a_mail("ada@example.org"))
        return caught.value

    assert code[:3] in str(await speak(sandbox, plain, send_twice))
    assert sandbox.phones.count == 1
    assert sandbox.smtp.connections == 1
    assert sandbox.stats("smtp").in_flight == 0


@EVERY_WAY
async def test_after_421_the_server_hangs_up(sandbox: Sandbox, connect: Connect, protocol: str) -> None:
    sandbox.faults_of("smtp").script("ada@example.org", Refuse("421 4.7.0"))

    def send_and_ask(client: smtplib.SMTP) -> None:
        with pytest.raises(smtplib.SMTPException) as caught:
            client.send_message(a_mail("ada@example.org"))
        assert "421" in str(caught.value)
        with pytest.raises(smtplib.SMTPServerDisconnected):
            client.noop()

    await speak(sandbox, connect, send_and_ask)
    assert sandbox.stats("smtp").answers == {"421 4.7.0": 1}, protocol


@EVERY_WAY
@pytest.mark.parametrize("delivered", [False, True])
async def test_a_cut_breaks_the_connection_after_the_content(
    sandbox: Sandbox, connect: Connect, protocol: str, *, delivered: bool
) -> None:
    sandbox.faults_of("smtp").script("ada@example.org", Cut(delivered=delivered))

    def send(client: smtplib.SMTP) -> None:
        with pytest.raises((smtplib.SMTPServerDisconnected, OSError)):
            client.send_message(a_mail("ada@example.org"))

    await speak(sandbox, connect, send)
    assert sandbox.phones.count == delivered
    assert sandbox.stats("smtp").answers == {"CUT": 1}, protocol
    assert len(sandbox.smtp.sessions) == 0


async def test_an_outage_meets_whoever_connects_and_whoever_is_connected(sandbox: Sandbox) -> None:
    faults = sandbox.faults_of("smtp")

    def send(client: smtplib.SMTP) -> None:
        faults.outage(Outage())
        with pytest.raises(smtplib.SMTPException) as caught:
            client.send_message(a_mail("ada@example.org"))
        assert "421" in str(caught.value)

    await speak(sandbox, over_starttls, send)
    for connect in (plain, over_tls):
        with pytest.raises(smtplib.SMTPConnectError) as caught:
            await speak(sandbox, connect, smtplib.SMTP.noop)
        assert caught.value.smtp_code == 421
    assert sandbox.stats("smtp").answers == {"421 4.3.2": 3}

    faults.outage(None)
    await speak(sandbox, plain, lambda client: client.send_message(a_mail("ada@example.org")))
    assert sandbox.phones.count == 1


async def test_quotas_of_the_sender_and_of_a_mailbox(sandbox: Sandbox) -> None:
    faults = sandbox.faults_of("smtp")
    faults.device_quota(Quota(1))

    def send(*recipients: str) -> Callable[[smtplib.SMTP], object]:
        return lambda client: [client.send_message(a_mail(each)) for each in recipients]

    with pytest.raises(smtplib.SMTPRecipientsRefused, match=r"4\.7\.1"):
        await speak(sandbox, plain, send("ada@example.org", "bob@example.org", "ada@example.org"))
    faults.clear()
    faults.project_quota(Quota(1))
    with pytest.raises(smtplib.SMTPSenderRefused) as caught:
        await speak(sandbox, plain, send("ada@example.org", "bob@example.org"))
    assert caught.value.smtp_code == 421


async def test_latency_slows_the_answer(sandbox: Sandbox) -> None:
    sandbox.faults_of("smtp").latency(Latency(0.2))
    loop = asyncio.get_running_loop()
    began = loop.time()

    await speak(sandbox, plain, lambda client: client.send_message(a_mail("ada@example.org")))

    assert loop.time() - began >= 0.2


async def test_an_address_in_utf_8_is_a_mailbox_like_any_other(sandbox: Sandbox) -> None:
    def send(client: smtplib.SMTP) -> None:
        client.send_message(a_mail("jürgen@example.org"))

    await speak(sandbox, over_tls, send)

    (arrived,) = sandbox.phones.messages(after=0, limit=10)
    assert arrived.target == "jürgen@example.org"
    assert arrived.message["headers"]["To"] == "jürgen@example.org"


async def test_a_sandbox_that_stops_leaves_no_connection_open() -> None:
    async with Sandbox() as sandbox:
        clients = [await asyncio.to_thread(connect, sandbox) for connect in (plain, over_starttls, over_tls)]
        assert len(sandbox.smtp.sessions) == 3

    assert len(sandbox.smtp.sessions) == 0
    for client in clients:
        with pytest.raises((smtplib.SMTPException, OSError)):
            await asyncio.to_thread(client.noop)
        client.close()
