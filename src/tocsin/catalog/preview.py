"""Renders the messages of a type with a payload of its producer, or an example."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tocsin.catalog.attributes import example_attributes
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.examples import example_payloads
from tocsin.domain.catalog import Channel, NotificationType, Payload
from tocsin.domain.delivery.message import PushAppearance
from tocsin.domain.digest import digest_payload

EXAMPLES_OF_DIGEST = 3


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a type: its texts by part, its data fields and, for a push, how it looks."""

    channel: Channel
    locale: str
    parts: dict[str, str]
    data: dict[str, str]
    appearance: PushAppearance | None = None


def example_payload(catalog: Catalog, notification_type: NotificationType) -> Payload:
    """Return the example of a type that has the most fields."""
    schema = catalog.compiled[notification_type.name, notification_type.version].schema
    examples = example_payloads(notification_type.payload_schema)
    accepted: list[Payload] = [payload for payload in examples if schema.accepts(payload)]
    # A catalog without faults has one for every field.
    return max(accepted, key=len)


def preview(
    catalog: Catalog,
    notification_type: NotificationType,
    payload: Payload,
    locale: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    digests: Mapping[str, Payload] | None = None,
) -> Iterator[Preview]:
    """Render the message of each channel that has texts or data, in one locale or in all that have texts.

    Without `attributes`, the recipient has an example of each that the type declares. `digests` are payloads
    of digests by channel; any other channel has a digest of one item. Without them, a digest is an example of
    three items.
    """
    if attributes is None:
        attributes = example_attributes(notification_type)[0]
    newest, upgraded = catalog.resolve(notification_type.name, notification_type.version, payload)
    if newest.policies.digest is not None:
        upgraded = digest_payload([upgraded] * (EXAMPLES_OF_DIGEST if digests is None else 1))
    texts = catalog.compiled[newest.name, newest.version].texts
    for channel in (each for each in newest.channels if each in texts):
        sent = (digests or {}).get(channel, upgraded)
        locales = catalog.locales(newest, channel) or (newest.default_locale,)
        for wanted in (locale,) if locale else locales:
            content = catalog.render(newest, channel, wanted, sent, attributes)
            yield Preview(
                channel=channel,
                locale=content.locale,
                parts=content.parts,
                data=content.data,
                appearance=content.appearance if channel in {"push", "inbox"} else None,
            )
