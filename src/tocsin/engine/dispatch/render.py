"""Renders the message of an attempt."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.catalog.catalog import NO_ATTRIBUTES, Catalog
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.catalog import Content, NotificationType
from tocsin.domain.delivery.message import HandOff, Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.domain.delivery.receipts import TOKEN_FIELD, ReceiptSettings, receipt_token
from tocsin.domain.ids import NotificationId
from tocsin.domain.people.profile import Destination, RecipientProfile
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.domain.people.unsubscribe import UnsubscribeSettings, unsubscribe_headers
from tocsin.domain.plan import HAND_OFF
from tocsin.domain.trace_context import traceparent_of
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.store.deliveries.claim import ClaimedDelivery
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys, SealedError

_decoder = msgspec.json.Decoder(dict[str, Any])


class Renderer(msgspec.Struct, frozen=True):
    """Renders texts in the person's language, from the payload as it was stored."""

    catalog: Catalog
    unsubscribe: UnsubscribeSettings
    data_keys: DataKeys = NO_KEYS
    receipts: ReceiptSettings = ReceiptSettings()

    def render(
        self, attempt: Attempt, type_: NotificationType, destination: Destination
    ) -> Message | Rejected:
        """Build the message for one destination, or return why it cannot be rendered."""
        if destination.provider in HAND_OFF:
            return self._hand_off(attempt, type_, destination)
        delivery = attempt.delivery
        locale = destination.locale or delivery.profile.locale
        try:
            content = self.catalog.render(
                type_, delivery.channel, locale, attempt.payload, _attributes(type_, delivery.profile)
            )
        except RenderError as error:
            return Rejected("render_failed", str(error))
        try:
            target, secret = self._opened(destination)
        except SealedError as error:
            return Rejected("data_key_unknown", str(error))
        notification_id = attempt.notification_id or NotificationId(attempt.id)
        data = {
            **content.data,
            "delivery_id": str(attempt.id),
            "notification_id": str(notification_id),
            "type": delivery.type,
        }
        if delivery.channel == "push" and self.receipts.secret is not None and delivery.user_id is not None:
            data[TOKEN_FIELD] = receipt_token(self.receipts.secret, attempt.id)
        message = Message(
            delivery_id=attempt.id,
            notification_id=notification_id,
            type=delivery.type,
            target=target,
            target_kind=destination.token_kind,
            title=content.parts.get("title", ""),
            body=content.parts.get("body", ""),
            data=data,
            appearance=content.appearance,
            platform=destination.platform,
            sender_key=destination.sender_key,
            locale=content.locale,
            collapse_key=delivery.collapse_key,
            expires_at=attempt.expires_at,
        )
        match delivery.channel:
            case "email":
                return self._mail(message, content, type_, delivery)
            case "webhook":
                return msgspec.structs.replace(
                    message,
                    payload=attempt.payload,
                    secret=secret,
                    traceparent=traceparent_of(delivery.trace_id),
                )
            case _:
                return message

    def _hand_off(self, attempt: Attempt, type_: NotificationType, destination: Destination) -> Message:
        """Build the message for a service that renders it by itself."""
        delivery = attempt.delivery
        recipient = recipient_of(delivery.user_id, delivery.address, delivery.type)
        slot = route_id(delivery.channel, recipient)
        notification_id = attempt.notification_id or NotificationId(attempt.id)
        locale = self.catalog.locale(type_, delivery.channel, delivery.profile.locale)
        event = type_.event if delivery.channel == "push" else None
        return Message(
            delivery_id=attempt.id,
            notification_id=notification_id,
            type=delivery.type,
            target=destination.token,
            title="",
            body="",
            data={},
            locale=locale,
            expires_at=attempt.expires_at,
            hand_off=HandOff(
                route_id=slot,
                event_id=f"{delivery.external_id or notification_id}/{slot}",
                user_id=delivery.user_id,
                request_id=delivery.request_id,
                trace_id=delivery.trace_id,
                accepted_at=delivery.accepted_at,
                payload=attempt.payload,
                locale=locale,
                table=event.table if event else None,
                fields=event.fields if event else (),
            ),
        )

    def _opened(self, destination: Destination) -> tuple[str, str | None]:
        """Decrypt the token and secret of a device or endpoint; an address or topic is in clear."""
        token, secret = destination.token, destination.secret
        if destination.id is None:
            return token, secret
        opened = self.data_keys.open(token, destination.id, "token")
        return opened, self.data_keys.open(secret, destination.id, "secret") if secret else None

    def _mail(
        self, message: Message, content: Content, type_: NotificationType, delivery: ClaimedDelivery
    ) -> Message:
        # Nobody can leave what is critical, and a bare address has no preferences to change.
        user_id = None if type_.policies.critical else delivery.user_id
        return msgspec.structs.replace(
            message,
            title=content.parts["subject"],
            body=content.parts["text"],
            html=content.parts.get("html"),
            reference=delivery.reference,
            headers=unsubscribe_headers(self.unsubscribe, user_id, type_.category) if user_id else {},
        )


def _attributes(type_: NotificationType, profile: RecipientProfile) -> Mapping[str, Any]:
    """Return the recipient's attributes, decoded only for a type that reads them."""
    if not type_.attributes or profile.attributes is None:
        return NO_ATTRIBUTES
    return _decoder.decode(profile.attributes)
