"""Parsing of mails."""

from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesParser

import msgspec


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a mail that the sandbox shows."""

    message_id: str
    delivery_id: str | None
    subject: str
    text: str | None
    html: str | None
    headers: dict[str, str]


def parse_mail(content: bytes, *, headers_only: bool = False) -> Mail:
    """Parse a mail; attachments are ignored.

    The old interface of the email package is used: the new one takes milliseconds for each mail.
    """
    message = BytesParser().parsebytes(content, headersonly=headers_only)
    headers = {name: _decoded(value) for name, value in message.raw_items()}
    by_name = {name.lower(): value for name, value in headers.items()}
    return Mail(
        message_id=by_name.get("message-id", ""),
        delivery_id=by_name.get("x-tocsin-delivery-id"),
        subject=by_name.get("subject", ""),
        text=None if headers_only else _part(message, "text/plain"),
        html=None if headers_only else _part(message, "text/html"),
        headers=headers,
    )


def _decoded(value: str) -> str:
    """Unfold a header and decode its encoded words, or its raw UTF-8."""
    line = "".join(value.split("\r\n")).encode("ascii", "surrogateescape").decode("utf-8", "replace")
    return str(make_header(decode_header(line))) if "=?" in line else line


def _part(message: Message, content_type: str) -> str | None:
    for part in message.walk():
        if part.get_content_type() == content_type and part.get_content_disposition() != "attachment":
            content = part.get_payload(decode=True)
            text = content.decode(_charset(part), "replace") if isinstance(content, bytes) else ""
            return text.replace("\r\n", "\n")
    return None


def _charset(part: Message) -> str:
    charset = part.get_content_charset() or "utf-8"
    try:
        "".encode(charset)
    except LookupError:
        return "utf-8"
    return charset
