import re
from base64 import b64decode
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtplib.email import quote_address
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.domain.ids import new_delivery_id, new_notification_id
from tocsin.providers.smtp.render import LONGEST_LINE, Envelope, Mailbox, read_mailbox, render

LONGEST_WORD = 75
CONTROL = re.compile(r"[\x00-\x1f]+")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SENDER = Mailbox("notify@acme.example", "Acme")
OURS = {
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "X-Tocsin-Delivery-Id"),
    *("MIME-Version", "Content-Type", "Content-Transfer-Encoding"),
}


def a_message(**changes: Any) -> Message:
    given: dict[str, Any] = {
        "delivery_id": new_delivery_id(),
        "notification_id": new_notification_id(),
        "type": "invoice_due",
        "target": "ada@example.org",
        "title": "Invoice",
        "body": "Please pay.",
        "data": {},
    }
    return Message(**given | changes)


def write(sender: Mailbox = SENDER, **changes: Any) -> Envelope | Rejected:
    return render(a_message(**changes), sender=sender, reply_to=None, limit=100_000, now=NOW)


def written(**changes: Any) -> bytes:
    mail = write(**changes)
    assert isinstance(mail, Envelope)
    return mail.content


def parsed(content: bytes) -> EmailMessage:
    return message_from_bytes(content, policy=policy.default)


def content_of(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    text: str = part.get_content()
    return text


def lines_of(text: str) -> list[str]:
    """Part text at line breaks as mail does, which knows CR and LF alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")


SOUND_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(SOUND_TEXT)
def test_a_title_arrives_in_one_line_and_brings_no_other_header(title: str) -> None:
    mail = parsed(written(title=title))

    assert set(mail.keys()) == OURS
    assert mail.get_all("Subject") == [CONTROL.sub(" ", title)]


@pytest.mark.parametrize("field", ["title", "reference"])
@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\0", "\r\n\t", "\x0b"])
@pytest.mark.parametrize("rest", ["", "é" * 100])
def test_no_header_has_a_line_break_once_it_is_decoded(field: str, end: str, rest: str) -> None:
    mail = message_from_bytes(written(**{field: f"Invoice{end}Bcc: bob@example.org{rest}"}))

    name = {"title": "Subject", "reference": "X-Delivery-Id"}[field]
    assert str(make_header(decode_header(mail[name]))) == f"Invoice Bcc: bob@example.org{rest}"


@given(st.text(st.sampled_from("aéক👋"), min_size=61))
def test_an_encoded_word_is_short_and_holds_whole_characters(title: str) -> None:
    words = message_from_bytes(written(title=title))["Subject"].split()

    assert max(map(len, words)) <= LONGEST_WORD
    assert "".join(b64decode(word[len("=?utf-8?b?") : -2]).decode() for word in words) == title


@pytest.mark.parametrize(
    "text", ["a" * 5_000, "ü" * 5_000, "a=b " * 900, ".\n..\n.", "From a\n--=_\n \n\t", ""]
)
def test_lines_of_every_length_arrive(text: str) -> None:
    mail = parsed(written(body=text, html=text))

    assert lines_of(content_of(mail, "plain")) == lines_of(text)
    assert lines_of(content_of(mail, "html")) == lines_of(text)


def test_a_text_that_is_mostly_ascii_can_be_read_on_the_wire() -> None:
    assert b"Pay now, J=C3=BCrgen." in written(body="Pay now, Jürgen.")


def test_text_and_html_cannot_end_their_part() -> None:
    message = a_message(html="")
    mark = f"--=_{message.delivery_id.hex}"
    forged = f"a\n{mark}\nContent-Type: text/html\n\nforged\n{mark}--\n"
    mail = render(
        replace(message, body=forged, html=forged), sender=SENDER, reply_to=None, limit=9_999, now=NOW
    )

    assert isinstance(mail, Envelope)
    assert [part.get_content_type() for part in parsed(mail.content).iter_parts()] == [
        "text/plain",
        "text/html",
    ]


@given(SOUND_TEXT, SOUND_TEXT)
def test_text_and_html_arrive_as_they_were(body: str, html: str) -> None:
    mail = parsed(written(body=body, html=html))

    assert lines_of(content_of(mail, "plain")) == lines_of(body)
    assert lines_of(content_of(mail, "html")) == lines_of(html)


@given(SOUND_TEXT, SOUND_TEXT, SOUND_TEXT)
def test_a_mail_is_ascii_in_lines_that_every_server_takes(title: str, body: str, name: str) -> None:
    content = written(title=title, body=body, sender=Mailbox("notify@acme.example", name.strip()))

    assert content.isascii()
    assert b"\0" not in content.partition(b"\r\n\r\n")[0]
    assert max(map(len, content.split(b"\r\n"))) <= LONGEST_LINE
    assert content.count(b"\n") == content.count(b"\r\n")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])).map(str.strip))
def test_the_senders_name_is_shown_as_it_was_given(name: str) -> None:
    mail = message_from_bytes(written(sender=Mailbox("notify@acme.example", name)))

    shown = str(make_header(decode_header(mail["From"])))
    bare = shown.rpartition("<")[0].strip() if name else ""
    unquoted = bare[1:-1].replace(r"\"", '"').replace(r"\\", "\\") if bare.startswith('"') else bare
    assert name in {bare, unquoted}
    assert shown.endswith("<notify@acme.example>" if name else "notify@acme.example")


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Note": "one\r\nBcc: bob@example.org"},
        {"X-Note": "one\nBcc: bob@example.org"},
        {"X-Note": "nul\0"},
        {"X-Note": "ünlü"},
        {"X-Note\r\nBcc": "bob@example.org"},
        {"X Note": "x"},
        {"X-Note:": "x"},
        {"": "x"},
        {"Bcc": "bob@example.org"},
        {"SUBJECT": "another"},
        {"X-Note": "x" * LONGEST_LINE},
    ],
)
def test_a_header_that_could_smuggle_something_in_is_refused(headers: dict[str, str]) -> None:
    outcome = write(headers=headers)

    assert isinstance(outcome, Rejected)
    assert outcome.code == "invalid_header"


@given(SOUND_TEXT, SOUND_TEXT)
def test_no_header_brings_another(name: str, value: str) -> None:
    mail = write(headers={name: value})

    if isinstance(mail, Envelope):
        assert set(parsed(mail.content).keys()) == OURS | {name}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ada@example.org", Mailbox("ada@example.org")),
        (" ada@example.org ", Mailbox("ada@example.org")),
        ("Acme <n@acme.example>", Mailbox("n@acme.example", "Acme")),
        ('"Acme, Inc." <n@acme.example>', Mailbox("n@acme.example", "Acme, Inc.")),
        ("Acme, Inc. <n@acme.example>", Mailbox("n@acme.example", "Acme, Inc.")),
        ("Müller & Söhne <n@bücher.example>", Mailbox("n@xn--bcher-kva.example", "Müller & Söhne")),
        ("Acme <n@acme.example", None),
        ("Acme <n@acme.example>\n", None),
        ("n@@acme.example", None),
        ("n@acme..example", None),
        ("n@" + "ü" * 80 + ".example", None),
    ],
)
def test_a_mailbox_is_read(text: str, expected: Mailbox | None) -> None:
    assert read_mailbox(text) == expected


def test_half_a_surrogate_pair_does_not_stop_a_mail() -> None:
    mail = parsed(written(title="a\ud800b", body="c\udfffd"))

    assert mail["Subject"] == "a?b"
    assert lines_of(content_of(mail, "plain")) == ["c?d"]


def test_attempts_of_one_delivery_have_one_message_id() -> None:
    message = a_message()
    mails = [render(message, sender=SENDER, reply_to=None, limit=1_000, now=NOW) for _ in range(2)]

    assert {mail.message_id for mail in mails if isinstance(mail, Envelope)} == {
        f"<{message.delivery_id}@acme.example>"
    }


@given(st.text(), st.sampled_from(["example.org", "bücher.example", "a.b-c.example"]))
def test_what_is_read_as_an_address_goes_over_the_wire_as_it_is(local: str, domain: str) -> None:
    mailbox = read_mailbox(f"{local}@{domain}")

    if mailbox is not None and not mailbox.name:
        assert quote_address(mailbox.address) == f"<{mailbox.address}>"
        assert mailbox.address.count("@") == 1


@given(st.from_regex(r"[!-~]{1,20}", fullmatch=True))
def test_every_ascii_name_that_is_read_goes_over_the_wire_as_it_is(local: str) -> None:
    mailbox = read_mailbox(f"{local}@example.org")

    if mailbox is not None and not mailbox.name:
        assert quote_address(mailbox.address) == f"<{mailbox.address}>"
