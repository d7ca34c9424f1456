"""Messages as a worker prepares them: the shipped texts in their languages, each to a target of its own."""

import random
import secrets
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.catalog.templates.css import inline_css
from tocsin.domain.catalog import Channel
from tocsin.domain.delivery.message import Message
from tocsin.domain.ids import DeliveryId, NotificationId, uuid7
from tocsin.providers.webhook.signing import new_secret

LONGEST_NAME = 18
SHORTEST_NAME = 6
ALPHABETS = ("abcdefghiklmnoprstuvyz", "abcçdefgğhiklmnoöprsştuüvyz", "بتدرسعفکمنی", "가나다라마바사아자하")
CURRENCIES = ("EUR", "GBP", "TRY", "USD")

_PLATFORMS = {"apns": "ios", "webpush": "web"}


def messages(provider: str, count: int, places: Sequence[str]) -> list[Message]:
    """Write messages for one provider; `places` are subscriptions or URLs, used in turn."""
    # The same in every run, so that two runs compare; nothing repeats, so compression is not flattered.
    chance = random.Random(provider)
    match provider:
        case "smtp":
            return list(_mails(count, chance))
        case "webhook":
            return [
                msgspec.structs.replace(each, payload=_customer(chance), secret=new_secret())
                for each in _pushes(provider, count, places, chance)
            ]
        case _:
            return list(_pushes(provider, count, places, chance))


def _pushes(provider: str, count: int, places: Sequence[str], chance: random.Random) -> Iterator[Message]:
    for number in range(count):
        payload = _customer(chance)
        target = places[number % len(places)] if places else _token(provider, chance)
        yield _written("new_customer", "push", payload, target, number, _PLATFORMS.get(provider, "android"))


def _mails(count: int, chance: random.Random) -> Iterator[Message]:
    for number in range(count):
        invoice = f"INV-{chance.randrange(10**8):08}"
        payload = {
            "invoice_number": invoice,
            "amount": f"{chance.randrange(100_000) / 100:.2f}",
            "currency": chance.choice(CURRENCIES),
            "due_on": f"2031-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
            "pay_url": f"https://example.com/invoices/{invoice}/pay",
        }
        address = f"{chance.randrange(16**8):08x}@example.com"
        yield _written("invoice_due", "email", payload, address, number, None)


def _written(
    name: str, channel: Channel, payload: dict[str, str], target: str, number: int, platform: str | None
) -> Message:
    type_ = _catalog.types[name]
    locales = _catalog.locales(type_, channel)
    content = _catalog.render(type_, channel, locales[number % len(locales)], payload)
    delivery_id, notification_id = uuid7(), uuid7()
    message = Message(
        delivery_id=DeliveryId(delivery_id),
        notification_id=NotificationId(notification_id),
        type=name,
        target=target,
        title=content.parts.get("title", ""),
        body=content.parts.get("body", ""),
        data={
            **content.data,
            "delivery_id": str(delivery_id),
            "notification_id": str(notification_id),
            "type": name,
        },
        appearance=content.appearance,
        platform=platform,
        locale=content.locale,
        expires_at=datetime.now(UTC) + timedelta(days=1),
    )
    if channel != "email":
        return message
    page = f"https://example.com/unsubscribe/{secrets.token_urlsafe(32)}"
    return msgspec.structs.replace(
        message,
        title=content.parts["subject"],
        body=content.parts["text"],
        html=inline_css(content.parts["html"]),
        headers={"List-Unsubscribe": f"<{page}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
    )


def _customer(chance: random.Random) -> dict[str, str]:
    name = "".join(chance.choices(chance.choice(ALPHABETS), k=chance.randint(SHORTEST_NAME, LONGEST_NAME)))
    return {"customer_name": name.capitalize(), "customer_id": str(uuid.UUID(int=chance.getrandbits(128)))}


def _token(provider: str, chance: random.Random) -> str:
    """Make up a token as long as the provider's own are."""
    match provider:
        case "apns":
            return chance.randbytes(32).hex()
        case "expo":
            return f"ExponentPushToken[{chance.randbytes(11).hex()}]"
        case _:
            return f"{chance.randbytes(11).hex()}:APA91b{chance.randbytes(67).hex()}"


_catalog = load_catalog(shipped_catalog())
