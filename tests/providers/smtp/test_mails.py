"""The mails themselves: headers, addresses and sizes."""

import pytest

from tests.providers.conformance import NOW, send_one, send_to
from tests.providers.smtp.smtp_rig import SmtpRig, counted
from tocsin.domain.delivery.outcome import Rejected, Sent
from tocsin.providers.smtp.provider import SmtpProvider


async def test_a_mail_has_what_readers_and_servers_look_for(rig: SmtpRig) -> None:
    message = rig.message(
        "ada",
        title="Faturanız hazır",  # noqa: RUF001 - Turkish has a dotless i
        body="Merhaba dünya.",
        html="<p>Merhaba <b>dünya</b>.</p>",
        headers={
            "List-Unsubscribe": "<https://acme.example/v1/unsubscribe?token=abc>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
    )

    (outcome,) = await rig.provider(reply_to="Hilfe <hilfe@acme.example>").send([message], now=NOW)

    assert outcome == Sent(f"<{message.delivery_id}@acme.example>")
    (arrived,) = rig.arrivals
    headers = arrived.message["headers"]
    assert headers.pop("Content-Type").startswith("multipart/alternative; boundary=")
    assert headers == {
        "From": '"Acme, Inc." <notify@acme.example>',
        "To": "ada@example.org",
        "Reply-To": "Hilfe <hilfe@acme.example>",
        "Subject": "Faturanız hazır",  # noqa: RUF001 - Turkish has a dotless i
        "Date": "Sun, 01 Mar 2026 12:00:00 +0000",
        "Message-ID": f"<{message.delivery_id}@acme.example>",
        "Auto-Submitted": "auto-generated",
        "X-Tocsin-Delivery-Id": str(message.delivery_id),
        "List-Unsubscribe": "<https://acme.example/v1/unsubscribe?token=abc>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "MIME-Version": "1.0",
    }
    assert arrived.message["text"] == "Merhaba dünya."
    assert arrived.message["html"] == "<p>Merhaba <b>dünya</b>.</p>"
    assert arrived.message_id == f"<{message.delivery_id}@acme.example>"


@pytest.mark.parametrize(
    "reference",
    [
        f"1767225600000-0/email:user:{'a' * 200}",
        "1767225600000-0/email:user:zoé",
        "é" * 500,
        "=?utf-8?b?YQ==?=",
    ],
)
async def test_a_reference_is_a_header_whatever_it_holds(rig: SmtpRig, reference: str) -> None:
    (outcome,) = await rig.provider().send([rig.message("ada", reference=reference)], now=NOW)

    assert isinstance(outcome, Sent)
    (arrived,) = rig.arrivals
    assert arrived.message["headers"]["X-Delivery-Id"] == reference
    assert "Bcc" not in arrived.message["headers"]


async def test_a_line_break_in_a_subject_or_a_reference_is_a_space(rig: SmtpRig) -> None:
    text = "a\r\nBcc: mallory@example.org"

    await rig.provider().send([rig.message("ada", title=text, reference=text)], now=NOW)

    headers = rig.arrivals[0].message["headers"]
    assert [headers["Subject"], headers["X-Delivery-Id"]] == ["a Bcc: mallory@example.org"] * 2
    assert "Bcc" not in headers


@pytest.mark.parametrize(
    ("target", "mailbox"),
    [
        ("jürgen@example.org", "jürgen@example.org"),
        ("ada@bücher.example", "ada@xn--bcher-kva.example"),
        ("jürgen@bücher.example", "jürgen@xn--bcher-kva.example"),
        ("a.b+c@example.org", "a.b+c@example.org"),
        ("o'hara@example.org", "o'hara@example.org"),
    ],
)
async def test_addresses_beyond_ascii_arrive(rig: SmtpRig, target: str, mailbox: str) -> None:
    assert isinstance(await send_one(rig.provider(), target), Sent)

    (arrived,) = rig.arrivals
    assert arrived.target == mailbox
    assert arrived.message["headers"]["To"] == mailbox


async def test_a_server_without_smtputf8_takes_no_such_address_and_goes_on(rig: SmtpRig) -> None:
    rig.sandbox.smtp.offers_utf8 = False
    provider = rig.provider(concurrency=1)
    with counted(rig.sandbox) as connections:
        outcomes = [
            await send_one(provider, target)
            for target in ("jürgen@example.org", "ada@bücher.example", "ada@example.org")
        ]
    rig.sandbox.smtp.offers_utf8 = True

    assert [type(outcome) for outcome in outcomes] == [Rejected, Sent, Sent]
    assert isinstance(outcomes[0], Rejected)
    assert outcomes[0].code == "smtputf8_unsupported"
    assert connections == [1]


@pytest.mark.parametrize(
    "target",
    [
        *("ada", "@example.org", "ada@", "ada@-bad.example", "Ada <ada@example.org>", "ada@[127.0.0.1]"),
        *("ada@example.org>\r\nRCPT TO:<bob@example.org", "ada bob@example.org", "ada@exa mple.org", ""),
        *('"ada"@example.org', "ada@example.org, bob@example.org", "ada@" + "a" * 64 + ".org"),
    ],
)
async def test_what_is_no_address_is_refused_before_it_is_sent(rig: SmtpRig, target: str) -> None:
    outcome = await send_one(rig.provider(), target)

    assert outcome == Rejected("invalid_address", "the target is not a mail address")
    assert rig.stats.requests == 0


async def test_a_large_mail_that_just_fits_is_sent(rig: SmtpRig) -> None:
    room = SmtpProvider.limits.payload_bytes - 100

    assert isinstance(await send_to(rig, rig.provider(), "ada", body="x" * room), Sent)
