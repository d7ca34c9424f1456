"""Digests on their way: one leader for each, and one list of what it tells."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import Payload
from tocsin.domain.digest import digest_payload
from tocsin.domain.ids import LeaseId
from tocsin.engine.dispatch.fan_out import Target
from tocsin.engine.dispatch.rules import Admitted
from tocsin.store.deliveries.claim import ClaimedDelivery
from tocsin.store.deliveries.digests import Gathered, Told, gather, set_aside
from tocsin.store.pool import Pool

_payload_decoder = msgspec.json.Decoder(dict[str, Any])


class Digests(msgspec.Struct, frozen=True):
    """Turns what leads a digest into what tells of all of it. Costs nothing where nothing is collected."""

    pool: Pool
    catalog: Catalog

    async def one_each(self, admitted: list[Admitted], lease: LeaseId) -> list[Admitted]:
        """Let one delivery lead where two of a claim would; the other follows it."""
        leading: set[str] = set()
        others: list[UUID] = []
        for each in admitted:
            key = each.claimed.digest_key
            if key is None or each.claimed.digest_id is not None:
                continue
            if key in leading:
                others.append(each.claimed.id)
            leading.add(key)
        if not others:
            return admitted
        async with self.pool.acquire() as connection:
            await set_aside(connection, others, lease)
        return [each for each in admitted if each.claimed.id not in others]

    async def gather(self, targets: list[Target], now: datetime) -> list[Target]:
        """Give every target of a type that collects the payloads of all it tells of."""
        if all(target.admitted.kind.policies.digest is None for target in targets):
            return targets
        telling = {
            _digest_of(target.admitted.claimed): target.admitted.claimed.id
            for target in targets
            if target.admitted.claimed.digest_key is not None
        }
        gathered: dict[UUID, Gathered] = {}
        if telling:
            async with self.pool.acquire() as connection:
                gathered = await gather(connection, telling, now)
        return [self._telling(target, gathered) for target in targets]

    def _telling(self, target: Target, gathered: dict[UUID, Gathered]) -> Target:
        admitted = target.admitted
        if admitted.kind.policies.digest is None:
            return target
        digest = gathered.get(_digest_of(admitted.claimed))
        if digest is None:
            payload = digest_payload([admitted.payload])
        else:
            told = [self._resolved(admitted.claimed.type, each) for each in digest.told]
            payload = digest_payload(told, digest.count)
        return msgspec.structs.replace(target, admitted=msgspec.structs.replace(admitted, payload=payload))

    def _resolved(self, kind: str, told: Told) -> Payload:
        payload: Payload = _payload_decoder.decode(told.payload)
        if self.catalog.find(kind, told.version) is not None:
            _, payload = self.catalog.resolve(kind, told.version, payload)
        return payload


def _digest_of(claimed: ClaimedDelivery) -> UUID:
    """Name a digest by the delivery that leads it."""
    return claimed.digest_id or claimed.id
