"""Fills attempts of types with a digest with the payloads of all its members."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import Payload
from tocsin.domain.digest import digest_payload
from tocsin.domain.ids import NotificationId
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.store.deliveries.digests import Member, Members, close
from tocsin.store.pool import Pool

_payload_decoder = msgspec.json.Decoder(dict[str, Any])


class DigestPayloads(msgspec.Struct, frozen=True):
    """Closes digests when they are sent first."""

    pool: Pool
    catalog: Catalog

    async def close(self, attempts: Sequence[Attempt], now: datetime) -> Mapping[UUID, Members]:
        """Close the digests that attempts carry; return their members, for those that have any."""
        digest_ids = sorted({each.delivery.digest_id for each in attempts if each.delivery.digest_id})
        if not digest_ids:
            return {}
        async with self.pool.acquire() as connection, connection.transaction():
            return await close(connection, digest_ids, now)

    def fill(self, attempt: Attempt, members: Mapping[UUID, Members]) -> bool:
        """Set the payload of a digest; return False if its members are all gone."""
        if attempt.type is None or attempt.type.policies.digest is None:
            return True
        if attempt.delivery.digest_id is None:
            # One with a time of its own is a digest of one.
            attempt.payload = digest_payload([attempt.payload])
            return True
        found = members.get(attempt.delivery.digest_id)
        if found is None:
            return False
        attempt.notification_id = NotificationId(found.newest[-1].notification_id)
        payloads = list(member_payloads(self.catalog, attempt.delivery.type, found.newest))
        attempt.payload = digest_payload(payloads, found.count)
        return True


def member_payloads(catalog: Catalog, type_name: str, members: Iterable[Member]) -> Iterator[Payload]:
    """Yield the payloads of members of a digest, upgraded to the version that is sent."""
    for member in members:
        payload: Payload = _payload_decoder.decode(member.payload)
        if catalog.find(type_name, member.version) is not None:
            _, payload = catalog.resolve(type_name, member.version, payload)
        yield payload
