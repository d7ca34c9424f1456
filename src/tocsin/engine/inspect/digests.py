"""The digests that the deliveries of a notification are members of, as they are sent."""

from uuid import UUID

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import Payload
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.digest import digest_payload
from tocsin.engine.dispatch.digest import member_payloads
from tocsin.store.deliveries.digests import newest_members
from tocsin.store.pool import Connection
from tocsin.wire.notifications import Delivery, Notification

MOST_COUNTED = 1_000
"""Members of a digest that are counted at most."""

_SENT = frozenset({State.SENT, State.DELIVERED})


class ShownDigest(msgspec.Struct, frozen=True, kw_only=True):
    """A digest to one recipient: its payload, and how many members it has, which may still be more."""

    digest_id: UUID
    recipient: str
    count: int
    is_open: bool
    payload: Payload


async def read_digests(
    connection: Connection, catalog: Catalog, shown: Notification, org_id: str | None = None
) -> dict[str, ShownDigest]:
    """Read one digest for each channel: that of the first delivery which was or will be sent with it.

    With an `org_id`, only members of that organisation are read and counted.
    """
    found: dict[str, ShownDigest] = {}
    looked_up: set[str] = set()
    for delivery in shown.deliveries:
        if delivery.digest_id is None or delivery.channel in looked_up or not _belongs(delivery):
            continue
        # Also if nothing is found: one query for each channel, not for each recipient.
        looked_up.add(delivery.channel)
        state = State(delivery.state)
        states = next((group for group in (WAITING, _SENT) if state in group), frozenset({state}))
        members = await newest_members(
            connection, delivery.digest_id, states, delivery.reason, most=MOST_COUNTED, org_id=org_id
        )
        if members.newest:
            payloads = list(member_payloads(catalog, shown.type, members.newest))
            found[delivery.channel] = ShownDigest(
                digest_id=delivery.digest_id,
                recipient=delivery.recipient,
                count=members.count,
                is_open=state in WAITING,
                payload=digest_payload(payloads, members.count),
            )
    return found


def _belongs(delivery: Delivery) -> bool:
    """Return whether a delivery waits with its digest or ended with it, and did not leave it before."""
    return delivery.state in WAITING or any(step.rule == "digest" for step in delivery.decisions)
