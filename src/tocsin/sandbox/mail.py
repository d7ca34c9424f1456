"""A mail as its reader sees it."""

from email import message_from_bytes, policy
from email.message import EmailMessage

import msgspec


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail taken apart."""

    message_id: str
    delivery_id: str | None
    subject: str
    text: str | None
    html: str | None
    headers: dict[str, str]


def read_mail(content: bytes) -> Mail:
    """Take a mail apart; parts that are attached are left out."""
    message = message_from_bytes(content, policy=policy.default)
    return Mail(
        message_id=str(message["Message-ID"] or ""),
        delivery_id=message["X-Tocsin-Delivery-Id"],
        subject=str(message["Subject"] or ""),
        text=_part(message, "plain"),
        html=_part(message, "html"),
        headers={name: str(value) for name, value in message.items()},
    )


def _part(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body((kind,))
    return None if part is None else part.get_content(errors="replace").replace("\r\n", "\n")
