"""From a delivery and a device to a message."""

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.templates import RenderError
from tocsin.domain.ids import DeliveryId, NotificationId
from tocsin.domain.message import Message
from tocsin.domain.outcome import Rejected
from tocsin.engine.gate import Target


def prepare(catalog: Catalog, target: Target) -> Message | Rejected:
    """Render a delivery in the person's language, from the payload as it was stored."""
    admitted, device, delivery_id = target.admitted, target.device, target.aim.id
    claimed = admitted.claimed
    locale = device.locale or claimed.locale
    try:
        content = catalog.render(admitted.kind, claimed.channel, locale, admitted.payload)
    except RenderError as error:
        return Rejected("render_failed", str(error))
    identity = {
        "delivery_id": str(delivery_id),
        "notification_id": str(claimed.notification_id),
        "type": claimed.type,
    }
    return Message(
        delivery_id=DeliveryId(delivery_id),
        notification_id=NotificationId(claimed.notification_id),
        type=claimed.type,
        target=device.token,
        title=content.parts["title"],
        body=content.parts["body"],
        data={**content.data, **identity},
        platform=device.platform,
        collapse_key=claimed.collapse_key,
        expires_at=admitted.expires_at,
    )
