"""Fills attempts of types with a digest with the payloads of all its members."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import Payload
from tocsin.domain.digest import digest_payload
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.store.deliveries.digests import Member, Members, close
from tocsin.store.pool import Pool

_payload_decoder = msgspec.json.Decoder(dict[str, Any])


class DigestPayloads(msgspec.Struct, frozen=True):
    """Closes digests when they are sent first."""

    pool: Pool
    catalog: Catalog

    async def fill(self, attempts: Sequence[Attempt], now: datetime) -> tuple[list[Attempt], list[Attempt]]:
        """Set the payloads of digests; return the attempts to send and those whose members are all gone."""
        digest_ids = sorted({each.delivery.digest_id for each in attempts if each.delivery.digest_id})
        members: dict[Any, Members] = {}
        if digest_ids:
            async with self.pool.acquire() as connection, connection.transaction():
                members = await close(connection, digest_ids, now)
        sent: list[Attempt] = []
        empty: list[Attempt] = []
        for attempt in attempts:
            if attempt.type is not None and attempt.type.policies.digest is not None:
                if attempt.delivery.digest_id is None:
                    # One with a time of its own is a digest of one.
                    attempt.payload = digest_payload([attempt.payload])
                elif (found := members.get(attempt.delivery.digest_id)) is None:
                    empty.append(attempt)
                    continue
                else:
                    attempt.notification_id = found.newest[-1].notification_id
                    attempt.payload = digest_payload(
                        list(self._payloads(attempt.delivery.type, found.newest)), found.count
                    )
            sent.append(attempt)
        return sent, empty

    def _payloads(self, type_name: str, members: Iterable[Member]) -> Iterable[Payload]:
        for member in members:
            payload: Payload = _payload_decoder.decode(member.payload)
            if self.catalog.find(type_name, member.version) is not None:
                _, payload = self.catalog.resolve(type_name, member.version, payload)
            yield payload
