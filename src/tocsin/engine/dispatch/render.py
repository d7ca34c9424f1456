"""From a delivery and what it can be reached at to a message."""

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.templates.css import inline_css
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.catalog import Content
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.domain.ids import DeliveryId, NotificationId
from tocsin.domain.people.unsubscribe import UnsubscribeSettings, unsubscribe_headers
from tocsin.engine.dispatch.fan_out import Target


class Preparer(msgspec.Struct, frozen=True):
    """Renders a delivery in the person's language, from the payload as it was stored."""

    catalog: Catalog
    unsubscribe: UnsubscribeSettings

    def prepare(self, target: Target) -> Message | Rejected:
        """Write the message for one target, or say why there is none."""
        admitted, device = target.admitted, target.device
        claimed = admitted.claimed
        locale = device.locale or claimed.locale
        try:
            content = self.catalog.render(admitted.kind, claimed.channel, locale, admitted.payload)
        except RenderError as error:
            return Rejected("render_failed", str(error))
        delivery_id = target.aim.id
        identity = {
            "delivery_id": str(delivery_id),
            "notification_id": str(claimed.notification_id),
            "type": claimed.type,
        }
        message = Message(
            delivery_id=DeliveryId(delivery_id),
            notification_id=NotificationId(claimed.notification_id),
            type=claimed.type,
            target=device.token,
            target_kind=device.token_kind,
            title=content.parts.get("title", ""),
            body=content.parts.get("body", ""),
            data={**content.data, **identity},
            appearance=content.appearance,
            platform=device.platform,
            locale=content.locale,
            collapse_key=claimed.collapse_key,
            expires_at=admitted.expires_at,
        )
        match claimed.channel:
            case "email":
                return self._mail(message, content, target)
            case "webhook":
                return msgspec.structs.replace(message, payload=admitted.payload, secret=device.secret)
            case _:
                return message

    def _mail(self, message: Message, content: Content, target: Target) -> Message:
        kind, user_id = target.admitted.kind, target.admitted.claimed.user_id
        # Nobody can leave what is critical, and a bare address has no preferences to change.
        may_leave = user_id is not None and not kind.policies.critical
        html = content.parts.get("html")
        return msgspec.structs.replace(
            message,
            title=content.parts["subject"],
            body=content.parts["text"],
            html=inline_css(html) if html else None,
            headers=unsubscribe_headers(self.unsubscribe, user_id, kind.category)
            if may_leave and user_id
            else {},
        )
