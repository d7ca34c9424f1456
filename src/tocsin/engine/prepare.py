"""From a claimed delivery to a message, or to the reason there is none."""

from datetime import datetime
from typing import Any

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.templates import RenderError
from tocsin.domain.catalog import NotificationType
from tocsin.domain.ids import DeliveryId, NotificationId
from tocsin.domain.message import Message
from tocsin.domain.outcome import Rejected
from tocsin.store.claims import ClaimedDelivery

_payload_decoder = msgspec.json.Decoder(dict[str, Any])


class Prepared(msgspec.Struct, frozen=True):
    """A message and the type that says how to treat it."""

    kind: NotificationType
    message: Message


def prepare(catalog: Catalog, claimed: ClaimedDelivery, token: str) -> Prepared | Rejected:
    """Render a delivery in the person's language, from the payload as it was stored."""
    declared = catalog.find(claimed.type, claimed.version)
    if declared is None:
        return Rejected(
            "type_unknown", f"{claimed.type} version {claimed.version} is no longer in the catalog"
        )
    kind, payload = catalog.resolve(claimed.type, claimed.version, _payload_decoder.decode(claimed.payload))
    try:
        content = catalog.render(kind, "push", claimed.locale, payload)
    except RenderError as error:
        return Rejected("render_failed", str(error))
    identity = {
        "delivery_id": str(claimed.id),
        "notification_id": str(claimed.notification_id),
        "type": claimed.type,
    }
    return Prepared(
        kind,
        Message(
            delivery_id=DeliveryId(claimed.id),
            notification_id=NotificationId(claimed.notification_id),
            type=claimed.type,
            target=token,
            title=content.parts["title"],
            body=content.parts["body"],
            data={**content.data, **identity},
            platform=claimed.platform,
            collapse_key=claimed.collapse_key,
            expires_at=claimed.expires_at,
        ),
    )


def is_expired(claimed: ClaimedDelivery, now: datetime) -> bool:
    """Tell whether a delivery's time to live is over."""
    return claimed.expires_at is not None and claimed.expires_at <= now
