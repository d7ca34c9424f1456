import asyncio
import logging

import pytest

from tests.providers.conformance import NOW, ProviderConformance, a_message, send_one, send_to
from tests.providers.smtp.smtp_rig import SENDER, Security, SmtpRig, counted
from tests.waiting import until
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.smtp.answers import RATE_REST
from tocsin.providers.smtp.pool import SmtpPoolSettings
from tocsin.providers.smtp.provider import SmtpProvider
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.sandbox import Cut, Hang, Latency, Outage, Refuse, Sandbox


class TestConformance(ProviderConformance):
    """Over a connection that begins in plain text."""


class TestConformanceOverTls(ProviderConformance):
    @pytest.fixture
    def security(self) -> Security:
        return "tls"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("421 4.3.2", Retry("421 4.3.2", "The system is going down, closing the connection")),
        (
            "421 4.7.0",
            Defer("421 4.7.0", RATE_REST, "Too many messages from this sender, closing the connection"),
        ),
        (
            "450 4.2.1",
            Retry("450 4.2.1", "<[address]>: mailbox temporarily unavailable", speaks_against="target"),
        ),
        ("450 4.7.1", Defer("450 4.7.1", RATE_REST, "<[address]>: too many messages, slow down")),
        ("451 4.3.0", Retry("451 4.3.0", "Local error in processing, try again later")),
        ("451 4.3.2", Retry("451 4.3.2", "The system is not accepting messages now")),
        (
            "451 4.7.1",
            Retry("451 4.7.1", "<[address]>: greylisted, try again later", speaks_against="target"),
        ),
        ("452 4.2.2", Retry("452 4.2.2", "<[address]>: the mailbox is full", speaks_against="target")),
        ("452 4.3.1", Retry("452 4.3.1", "Insufficient system storage")),
        ("454 4.7.0", Retry("454 4.7.0", "Temporary authentication failure")),
        ("530 5.7.0", Defer("530 5.7.0", ALARM_REST, "Authentication required", alarm=True)),
        ("534 5.7.9", Defer("534 5.7.9", ALARM_REST, "The authentication mechanism is too weak", alarm=True)),
        ("535 5.7.8", Defer("535 5.7.8", ALARM_REST, "Authentication credentials invalid", alarm=True)),
        ("550 5.1.1", Gone("550 5.1.1", "<[address]>: no such user here")),
        ("550 5.1.2", Gone("550 5.1.2", "<[address]>: the domain does not exist")),
        ("550 5.1.6", Gone("550 5.1.6", "<[address]>: the mailbox has moved")),
        ("550 5.2.1", Gone("550 5.2.1", "<[address]>: the mailbox is disabled")),
        (
            "550 5.7.1",
            Rejected("550 5.7.1", "The message is refused by policy, [address] takes no bulk mail"),
        ),
        ("552 5.2.2", Rejected("552 5.2.2", "<[address]>: the mailbox is full")),
        ("552 5.3.4", Rejected("552 5.3.4", "The message is too large")),
        ("553 5.1.3", Gone("553 5.1.3", "<[address]>: not a valid mailbox")),
        ("553 5.1.8", Defer("553 5.1.8", ALARM_REST, "The sender's domain does not exist", alarm=True)),
        ("554 5.6.0", Rejected("554 5.6.0", "The content is refused")),
        ("556 5.1.10", Gone("556 5.1.10", "<[address]>: the domain takes no mail")),
    ],
)
async def test_each_refusal_of_a_server_is_understood(rig: SmtpRig, code: str, expected: Outcome) -> None:
    provider = rig.provider()
    rig.script("ada", Refuse(code))

    assert await send_to(rig, provider, "ada") == expected
    assert isinstance(await send_to(rig, provider, "ada"), Sent)


async def test_one_connection_serves_many_messages(rig: SmtpRig) -> None:
    provider = rig.provider(concurrency=1)
    with counted(rig.sandbox) as connections:
        for number in range(10):
            assert isinstance(await send_to(rig, provider, f"phone{number}"), Sent)
        outcomes = await provider.send([rig.message(f"phone{number}") for number in range(10)], now=NOW)

    assert all(isinstance(outcome, Sent) for outcome in outcomes)
    assert connections == [1]
    assert rig.stats.protocols == {"smtp+starttls": 20}


async def test_a_batch_travels_over_the_pool_and_no_wider(rig: SmtpRig) -> None:
    provider = rig.provider(concurrency=4)
    rig.faults.latency(Latency(0.02))
    with counted(rig.sandbox) as connections:
        outcomes = await provider.send([rig.message(f"phone{number}") for number in range(20)], now=NOW)

    assert all(isinstance(outcome, Sent) for outcome in outcomes)
    assert connections == [4]
    assert rig.stats.most_in_flight == 4


async def test_a_refusal_costs_no_connection_but_421_does(rig: SmtpRig) -> None:
    provider = rig.provider(concurrency=1)
    rig.script("ada", Refuse("550 5.1.1"), Refuse("554 5.6.0"), Refuse("451 4.3.0"))
    with counted(rig.sandbox) as connections:
        for _ in range(4):
            await send_to(rig, provider, "ada")
    assert connections == [1]

    rig.script("ada", Refuse("421 4.3.2"))
    with counted(rig.sandbox) as connections:
        for _ in range(2):
            await send_to(rig, provider, "ada")
    assert connections == [1]


async def test_a_connection_that_broke_while_it_lay_idle_is_replaced(rig: SmtpRig) -> None:
    provider = rig.provider(concurrency=1)
    await send_to(rig, provider, "ada")
    for session in list(rig.sandbox.smtp.sessions):
        session.abort()
    await until(lambda: len(rig.sandbox.smtp.sessions) == 0)

    with counted(rig.sandbox) as connections:
        outcomes = [await send_to(rig, provider, "ada") for _ in range(3)]

    assert isinstance(outcomes[-1], Sent)
    assert connections == [1]


async def test_a_connection_that_lay_idle_is_asked_before_it_is_used(rig: SmtpRig) -> None:
    provider = rig.provider(concurrency=1, pool=SmtpPoolSettings(check_after=0.0))
    before = rig.sandbox.smtp.noop_commands
    with counted(rig.sandbox) as connections:
        for _ in range(3):
            assert isinstance(await send_to(rig, provider, "ada"), Sent)

    assert (connections, rig.sandbox.smtp.noop_commands - before) == ([1], 2)


async def test_a_connection_that_nobody_needs_is_closed(rig: SmtpRig) -> None:
    provider = rig.provider(pool=SmtpPoolSettings(close_after=0.05))
    await provider.send([rig.message(f"phone{number}") for number in range(5)], now=NOW)
    assert len(rig.sandbox.smtp.sessions) == 5

    await until(lambda: len(rig.sandbox.smtp.sessions) == 0)

    assert isinstance(await send_to(rig, provider, "ada"), Sent)


async def test_a_connection_ends_after_its_share_of_messages(rig: SmtpRig) -> None:
    provider = rig.provider(concurrency=1, pool=SmtpPoolSettings(messages=3))
    with counted(rig.sandbox) as connections:
        for _ in range(7):
            assert isinstance(await send_to(rig, provider, "ada"), Sent)

    assert connections == [3]
    await until(lambda: len(rig.sandbox.smtp.sessions) == 1)


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize("fault", [Hang(), Cut(), Refuse("421 4.7.0")])
async def test_what_goes_wrong_leaves_no_socket_open(rig: SmtpRig, fault: Hang | Cut | Refuse) -> None:
    provider = rig.provider(timeout_seconds=0.3)
    rig.script("ada", fault)

    await send_to(rig, provider, "ada")

    await until(lambda: len(rig.sandbox.smtp.sessions) == 0)


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_cancelled_send_leaves_no_socket_open(rig: SmtpRig) -> None:
    provider = rig.provider(timeout_seconds=30.0)
    rig.script("ada", Hang())
    batch = [rig.message("ada"), rig.message("bob")]
    sending = asyncio.create_task(provider.send(batch, now=NOW))
    await until(lambda: "HANG" in rig.stats.answers)

    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await provider.aclose()

    await until(lambda: len(rig.sandbox.smtp.sessions) == 0)


async def test_closing_breaks_off_what_is_under_way(rig: SmtpRig) -> None:
    provider = rig.provider(timeout_seconds=30.0)
    rig.script("ada", Hang())
    sending = asyncio.create_task(send_to(rig, provider, "ada"))
    await until(lambda: "HANG" in rig.stats.answers)

    await provider.aclose()

    outcome = await sending
    assert isinstance(outcome, Retry)
    assert outcome.code == "network_error"


async def test_a_refused_login_defers_and_alarms(rig: SmtpRig) -> None:
    outcome = await send_to(rig, rig.provider(password="guess"), "ada")

    assert outcome == Defer("535 5.7.8", ALARM_REST, "Authentication credentials invalid", alarm=True)
    assert rig.stats.requests == 0


async def test_a_login_that_fails_for_now_is_a_retry(rig: SmtpRig) -> None:
    rig.faults.script("sandbox", Refuse("454 4.7.0"), repeat=True)

    outcome = await send_to(rig, rig.provider(), "ada")

    assert outcome == Retry("454 4.7.0", "Temporary authentication failure")


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_an_outage_is_a_retry(rig: SmtpRig) -> None:
    provider = rig.provider()
    await send_to(rig, provider, "ada")
    rig.faults.outage(Outage())

    outcomes = [await send_to(rig, provider, "ada") for _ in range(2)]

    assert [outcome.code for outcome in outcomes if isinstance(outcome, Retry)] == ["421 4.3.2"] * 2
    rig.faults.outage(None)
    assert isinstance(await send_to(rig, provider, "ada"), Sent)


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_an_untrusted_certificate_is_a_retry_and_nothing_is_told(rig: SmtpRig) -> None:
    outcome = await send_to(rig, rig.provider(ca_file=None), "ada")

    assert outcome == Retry("network_error", "SSLCertVerificationError")
    assert rig.stats.requests == 0


async def test_a_certificate_for_another_host_is_a_retry(rig: SmtpRig) -> None:
    outcome = await send_to(rig, rig.provider(host="127.0.0.2"), "ada")

    assert isinstance(outcome, Retry)
    assert outcome.code == "network_error"


async def test_a_server_without_starttls_defers_and_alarms() -> None:
    async def bare(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 bare\r\n")
        while await reader.readline():
            writer.write(b"250 bare\r\n")
        writer.close()

    server = await asyncio.start_server(bare, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = SmtpProvider(SmtpSettings(host="127.0.0.1", port=port, sender=SENDER))

    outcome = await send_one(provider, "ada@example.org")
    await provider.aclose()
    server.close()

    assert isinstance(outcome, Defer)
    assert (outcome.code, outcome.alarm) == ("server_unfit", True)
    assert "STARTTLS" in outcome.detail


async def test_a_server_that_speaks_something_else_is_a_retry() -> None:
    async def web(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(web, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider = SmtpProvider(SmtpSettings(host="127.0.0.1", port=port, sender=SENDER, security="none"))

    outcome = await send_one(provider, "ada@example.org")
    await provider.aclose()
    server.close()

    assert isinstance(outcome, Retry)
    assert outcome.code == "unreadable_answer"


async def test_plain_text_is_spoken_where_it_was_chosen(running: Sandbox) -> None:
    running.reset()
    provider = SmtpRig(running, "none").build(username=None, password=None)

    assert isinstance(await send_one(provider, "ada@example.org"), Sent)

    await provider.aclose()
    assert running.stats("smtp").protocols == {"smtp": 1}


async def test_an_address_quoted_by_the_server_and_the_password_show_up_nowhere(
    rig: SmtpRig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    password = "hunter-two-hunter"
    provider = rig.provider(password=password)
    outcomes = [await send_to(rig, provider, "s3cret-name")]
    other = rig.provider()
    rig.script("s3cret-name", *(Refuse(code) for code in sorted(rig.faults.codes)))
    outcomes += [await send_to(rig, other, "s3cret-name") for _ in rig.faults.codes]

    told = [repr(outcomes), repr(provider), repr(vars(provider)), caplog.text]
    assert not [
        text for text in told for secret in (password, "s3cret-name", "example.org") if secret in text
    ]


async def test_a_batch_keeps_the_results_of_the_others(rig: SmtpRig) -> None:
    rig.script("gone", Refuse("550 5.1.1"))
    rig.script("cut", Cut())
    rig.script("hang", Hang())
    names = ["a", "gone", "b", "cut", "c", "hang", "d"]

    outcomes = await rig.provider(timeout_seconds=1.0).send(
        [a_message(rig.target(name)) for name in names], now=NOW
    )

    assert [type(outcome) for outcome in outcomes] == [Sent, Gone, Sent, Retry, Sent, Retry, Sent]
    assert {received.target for received in rig.arrivals} == {rig.target(name) for name in "abcd"}
