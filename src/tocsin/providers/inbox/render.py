"""A message as an item of the inbox."""

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import InboxContent, Rejected
from tocsin.providers.rendering import encode_within

LONGEST_LINK = 2_048
_NOT_STORABLE = "\x00"


def render(message: Message, most: int) -> InboxContent | Rejected:
    """Build the item of a message, or reject one that is too large to be listed."""
    appearance = message.appearance
    item = InboxContent(
        title=_text(message.title),
        body=_text(message.body),
        link=appearance.deep_link,
        icon=appearance.icon,
        data={_text(name): _text(value) for name, value in message.data.items()},
    )
    for name, address in {"link": item.link, "icon": item.icon}.items():
        if address is not None and len(address) > LONGEST_LINK:
            return Rejected(
                "payload_too_large", f"the {name} has {len(address)} characters; {LONGEST_LINK} fit"
            )
    content = {"title": item.title, "body": item.body, "data": item.data}
    encoded = encode_within(content, most, "an inbox item")
    return encoded if isinstance(encoded, Rejected) else item


def _text(text: str) -> str:
    """Return a text as Postgres can store it."""
    return text.replace(_NOT_STORABLE, "\ufffd").strip()
