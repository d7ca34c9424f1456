"""A message as a mail: headers that allow no injection, a text part and maybe an HTML part."""

import re
from base64 import b64encode, encodebytes
from binascii import b2a_qp
from collections.abc import Iterator, Sequence
from datetime import datetime
from email.utils import format_datetime, quote, unquote
from functools import lru_cache

import idna
import msgspec

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected

LONGEST_LINE = 998
"""Of a mail, without its line break (RFC 5322)."""

LONGEST_ADDRESS = 254
"""In bytes, of a mail address (RFC 5321)."""

_LOCAL_PART = re.compile(r"""[^\s\x00-\x20\x7f@<>()\[\]\\,;:"]+""")
_HOST = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!-9;-~]+")
_PLAIN_TEXT = re.compile(r"[!-~]+( [!-~]+)*")
_HEADER_VALUE = re.compile(r"[ -~]*")
_CONTROL = re.compile(r"[\x00-\x1f]+")
_ATOMS = re.compile(r"[\w!#$%&'*+/=?^`{|}~ -]+", re.ASCII)
_WORD_BYTES = 45
_CHARACTER_BYTES = 4
# The upper bits of every byte of a UTF-8 character but its first.
_CONTINUATION_MASK, _CONTINUATION = 0b1100_0000, 0b1000_0000
_SHORT_TEXT = 60
_LONGEST_ID = 900
_READABLE_SHARE = 6
_OURS = frozenset(
    {
        *("from", "to", "cc", "bcc", "sender", "reply-to", "subject", "date", "message-id"),
        *(
            "auto-submitted",
            "x-tocsin-delivery-id",
            "x-delivery-id",
            "mime-version",
            "return-path",
            "received",
        ),
        *("content-type", "content-transfer-encoding", "content-disposition"),
    }
)


class Mailbox(msgspec.Struct, frozen=True):
    """A mail address as SMTP sends it, and the name shown with it."""

    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        """The domain of the address."""
        return self.address.rpartition("@")[2]

    @property
    def needs_utf8(self) -> bool:
        """Whether only a server with SMTPUTF8 can take it."""
        return not self.address.isascii()

    def __str__(self) -> str:
        """Render it for a header."""
        if not self.name:
            return self.address
        return f"{_phrase(self.name)} <{self.address}>"


class Envelope(msgspec.Struct, frozen=True):
    """A mail ready to be sent."""

    recipient: Mailbox
    message_id: str
    content: bytes


def read_mailbox(text: str) -> Mailbox | None:
    """Parse `Name <address>` or a bare address; the domain is converted to its IDNA form."""
    if not text.isprintable():
        return None
    name, address = _named(text.strip())
    local, _, domain = address.rpartition("@")
    host = _host(domain)
    if host is None or not _LOCAL_PART.fullmatch(local):
        return None
    mailbox = Mailbox(f"{local}@{host}", name)
    return mailbox if len(mailbox.address.encode()) <= LONGEST_ADDRESS else None


def render(
    message: Message, *, sender: Mailbox, reply_to: Mailbox | None, limit: int, now: datetime
) -> Envelope | Rejected:
    """Render a message as a mail, or return why it cannot be one."""
    recipient = read_mailbox(message.target)
    if recipient is None or recipient.name:
        return Rejected("invalid_address", "the target is not a mail address")
    texts = (message.title, message.body, message.html or "", *message.headers, *message.headers.values())
    size = _bytes_beyond(limit, texts)
    if size:
        return Rejected("payload_too_large", f"{size} bytes; a mail may have {limit}")
    unfit = [name for name, value in message.headers.items() if not _fits(name, value)]
    if unfit:
        return Rejected("invalid_header", f"header {unfit[0][:100]!r} cannot be written")
    delivery_id = str(message.delivery_id)
    message_id = f"<{delivery_id}@{sender.domain}>"
    reference = f"X-Delivery-Id: {_id(message.reference)}\r\n" if message.reference else ""
    others = "".join([f"{name}: {value}\r\n" for name, value in message.headers.items()])
    head = (
        f"{_constant_headers(sender, reply_to)}To: {recipient.address}\r\nSubject: {_text(message.title)}\r\n"
        f"Date: {_date(now.replace(microsecond=0))}\r\nMessage-ID: {message_id}\r\n"
        f"X-Tocsin-Delivery-Id: {delivery_id}\r\n{reference}{others}"
    )
    return Envelope(recipient, message_id, head.encode() + _body(message))


@lru_cache(maxsize=8)
def _constant_headers(sender: Mailbox, reply_to: Mailbox | None) -> str:
    """Render the headers that all mails of a provider share."""
    replies = f"Reply-To: {reply_to}\r\n" if reply_to else ""
    return f"From: {sender}\r\n{replies}MIME-Version: 1.0\r\nAuto-Submitted: auto-generated\r\n"


@lru_cache(maxsize=8)
def _date(now: datetime) -> str:
    """Render a time in whole seconds: mails of one second share it."""
    return format_datetime(now)


def _bytes_beyond(limit: int, texts: Sequence[str]) -> int:
    """Return the bytes of the texts if they are more than the limit, else 0."""
    if sum(map(len, texts)) * _CHARACTER_BYTES <= limit:
        return 0
    size = sum(len(text.encode(errors="replace")) for text in texts)
    return size if size > limit else 0


def _named(text: str) -> tuple[str, str]:
    """Split a name from its address; a comma in the name needs no quotes here."""
    if not text.endswith(">"):
        return "", text
    name, _, address = text[:-1].rpartition("<")
    return unquote(name.strip()), address


def _body(message: Message) -> bytes:
    if message.html is None:
        return _part("plain", message.body)
    # Neither encoding of a part ever writes an underscore after an equals sign.
    boundary = f"=_{message.delivery_id.hex}"
    head = f'Content-Type: multipart/alternative; boundary="{boundary}"\r\n\r\n'.encode()
    mark = f"--{boundary}\r\n".encode()
    parts = (_part("plain", message.body), _part("html", message.html))
    return head + b"".join(mark + part for part in parts) + f"--{boundary}--\r\n".encode()


def _part(subtype: str, text: str) -> bytes:
    """Encode a text in ASCII, for any server: quoted-printable if most of it is ASCII, else base64."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.removesuffix("\n").replace("\n", "\r\n") + "\r\n"
    content = lines.encode(errors="replace")
    if len(content) - len(lines) > len(lines) // _READABLE_SHARE:
        encoding, encoded = "base64", encodebytes(content).replace(b"\n", b"\r\n")
    else:
        encoding, encoded = "quoted-printable", b2a_qp(content)
    head = f"Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    return head.encode() + encoded


def _fits(name: str, value: str) -> bool:
    return (
        name.lower() not in _OURS
        and bool(_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value))
        and len(name) + len(value) + 2 <= LONGEST_LINE
    )


def _text(text: str) -> str:
    """Encode free text for a header: as it is if it is short and plain, else in encoded words (RFC 2047).

    Line breaks and other control characters become spaces: whoever decodes the words and writes the text into
    a header again would write another header.
    """
    text = _CONTROL.sub(" ", text)
    if len(text) <= _SHORT_TEXT and _PLAIN_TEXT.fullmatch(text) and "=?" not in text:
        return text
    return "\r\n ".join(f"=?utf-8?b?{b64encode(chunk).decode()}?=" for chunk in _chunks(text))


def _id(text: str) -> str:
    """Encode an id for a header: in one piece, however long, if it is ASCII."""
    return (
        text if len(text) < _LONGEST_ID and _PLAIN_TEXT.fullmatch(text) and "=?" not in text else _text(text)
    )


def _phrase(name: str) -> str:
    """Encode the name of a person or a company for a header."""
    if len(name) <= _SHORT_TEXT and _PLAIN_TEXT.fullmatch(name) and "=?" not in name:
        if _ATOMS.fullmatch(name):
            return name
        return f'"{quote(name)}"'
    return _text(name)


def _chunks(text: str) -> Iterator[bytes]:
    """Split text into pieces that an encoded word can hold, never within a character."""
    content = text.encode(errors="replace")
    start = 0
    while len(content) - start > _WORD_BYTES:
        end = start + _WORD_BYTES
        while content[end] & _CONTINUATION_MASK == _CONTINUATION:
            end -= 1
        yield content[start:end]
        start = end
    yield content[start:]


def _host(domain: str) -> str | None:
    if not domain.isascii():
        try:
            domain = idna.encode(domain, uts46=True).decode()
        except idna.IDNAError:
            return None
    return domain if _HOST.fullmatch(domain) else None
