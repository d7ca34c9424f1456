"""Mail commands as another service appends them, and the mailer that reads them."""

from typing import Any

import msgspec
from redis.asyncio import Redis

STREAM = "mail:delivery_commands"
INVOICE = {"invoice_number": "INV-1", "amount": "9.50", "currency": "EUR", "due_on": "2031-05-02"}
CONTENT = {
    "to": ["Ada@Example.com"],
    "cc": [],
    "bcc": [],
    "reply_to": [],
    "attachments": [],
    "template_id": "invoice_due",
    "locale": "tr",
    "variables": INVOICE,
}


def command(key: str = "1", content: dict[str, Any] | None = None, **changes: str) -> dict[str, str]:
    """Return the fields of a command; `content` changes some of its payload."""
    delivery_id = f"1700000000000-0/email:user:{key}"
    return {
        "delivery_id": delivery_id,
        "source": "notification",
        "payload_mode": "template",
        "idempotency_key": f"notification:{delivery_id}",
        "requested_at_ms": "1767225600123",
        "payload_json": msgspec.json.encode(CONTENT | (content or {})).decode(),
        **changes,
    }


async def append(redis: Redis, fields: dict[str, str]) -> str:
    """Append a command and return the id of its entry."""
    given: Any = fields
    entry_id: Any = await redis.xadd(STREAM, given)
    return str(entry_id.decode())
