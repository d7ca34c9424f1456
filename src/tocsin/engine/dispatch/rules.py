"""Decides about claimed deliveries by the rules of the domain."""

import random
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.decide import (
    Facts,
    FailoverState,
    Go,
    Hold,
    Refusal,
    Step,
    Verdict,
    decide,
    destinations,
    expiry_of,
    zone_of,
)
from tocsin.domain.delivery.held_by import HeldByUnknownType
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.faults import Fault
from tocsin.domain.limits import Allowance, LimitsSettings, device_allowances, person_allowances
from tocsin.domain.people.profile import Destination
from tocsin.domain.plan import INBOX
from tocsin.domain.timing.quiet_hours import QuietHours
from tocsin.domain.toggles import Toggle, read_toggle
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.engine.dispatch.malformed import warn_of_malformed
from tocsin.engine.dispatch.passed import Case, PassedCases, case_of
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.deliveries.claim import ClaimedDelivery
from tocsin.store.deliveries.context import NewerMessage

_payload_decoder = msgspec.json.Decoder(dict[str, Any])


class DeliveryRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a deployment: its catalog, providers, toggles, quiet hours and limits."""

    catalog: Catalog
    providers: AbstractSet[str]
    toggles: Toggles
    quiet: QuietHours
    limits: LimitsSettings
    passed: PassedCases = msgspec.field(default_factory=PassedCases)

    def decide(self, facts: Facts) -> Verdict:
        """Apply the rules to the facts of one delivery."""
        return decide(facts, self.quiet, self.providers)

    def decide_attempt(self, attempt: Attempt, now: datetime) -> Refusal | None:
        """Decide about a claimed delivery and prepare it; return None if it may be sent.

        One of an unknown type is held.
        """
        delivery = attempt.delivery
        found = self.catalog.find(delivery.type, delivery.version)
        if found is None:
            detail = f"{delivery.type} v{delivery.version} is not in the catalog of this worker"
            attempt.add_step(Step(rule="type", result="hold", detail=detail, at=now))
            return Hold(attempt.steps, HeldByUnknownType(delivery.type, delivery.version))
        type_, attempt.payload = self.catalog.upgrade(found, _payload_decoder.decode(delivery.payload))
        attempt.type = type_
        case = case_of(delivery, type_, now)
        if case is not None and self._has_passed(case, attempt, now):
            return None
        facts = self._facts(delivery, type_, now)
        zone = zone_of(facts, self.quiet)
        warn_of_malformed(delivery.user_id, facts, zone)
        verdict = self.decide(facts)
        attempt.steps = verdict.steps
        attempt.expires_at = expiry_of(facts, zone)
        if not isinstance(verdict, Go):
            return verdict
        attempt.destinations = verdict.destinations
        if not attempt.reserved:
            attempt.allowances = self.person_allowances(facts, delivery.user_id)
            attempt.limited = bool(attempt.allowances) or self.limits.per_device_per_day is not None
            # A time zone that is unknown is warned of for each person, and an address alone has no limits.
            if case is not None and not attempt.limited and not zone.unknown and delivery.user_id is not None:
                self.passed.add(case, now, verdict.steps)
        return None

    def _has_passed(self, case: Case, attempt: Attempt, now: datetime) -> bool:
        """Prepare an attempt like one of the same case that may be sent; False if there was none."""
        steps = self.passed.find(case, now)
        if steps is None:
            return False
        delivery = attempt.delivery
        found = destinations(
            delivery.channel,
            delivery.profile,
            user_id=delivery.user_id,
            address=delivery.address,
            device_id=delivery.device_id,
            providers=self.providers,
        )
        if isinstance(found, Reason):
            return False
        attempt.steps, attempt.destinations, attempt.expires_at = steps, found, delivery.expires_at
        return True

    def switched_off(self, type_name: str, channel: Channel) -> Toggle | None:
        """Return the toggle that holds deliveries of a type by a channel, if one does."""
        name = self.toggles.off_by(type_name, channel)
        toggle = read_toggle(name) if name is not None else None
        return None if isinstance(toggle, Fault) else toggle

    def person_allowances(self, facts: Facts, user_id: str | None) -> tuple[Allowance, ...]:
        """List the limits that a delivery to a person counts against; their inbox interrupts nobody."""
        if user_id is None or facts.type.policies.critical or facts.channel == INBOX:
            return ()
        zone = zone_of(facts, self.quiet).zone
        return tuple(person_allowances(self.limits, facts.type, user_id, zone, facts.now))

    def device_allowances(self, facts: Facts, destination: Destination) -> tuple[Allowance, ...]:
        """List the limits that a delivery to a device counts against besides."""
        if self.limits.per_device_per_day is None or destination.id is None or facts.type.policies.critical:
            return ()
        zone = zone_of(facts, self.quiet).zone
        return tuple(device_allowances(self.limits, destination.id, zone, facts.now))

    def attempt_device_allowances(self, attempt: Attempt, now: datetime) -> tuple[Allowance, ...]:
        """List the limits that an attempt at its device counts against."""
        if self.limits.per_device_per_day is None or attempt.destination is None or attempt.type is None:
            return ()
        return self.device_allowances(self._facts(attempt.delivery, attempt.type, now), attempt.destination)

    def _facts(self, delivery: ClaimedDelivery, notification_type: NotificationType, now: datetime) -> Facts:
        facts = Facts(
            type=notification_type,
            channel=delivery.channel,
            now=now,
            profile=delivery.profile,
            user_id=delivery.user_id,
            address=delivery.address,
            device_id=delivery.device_id,
            switched_off=self.switched_off(delivery.type, delivery.channel),
            order_blockers=frozenset(delivery.order_blockers),
            failover=_failover(delivery, notification_type),
            cancelled=delivery.cancelled,
            superseded=delivery.superseded,
            expires_at=delivery.expires_at,
            send_at_local=delivery.send_at_local,
            accepted_at=delivery.accepted_at,
            random=random.random() if self.quiet.spread else 0.0,  # noqa: S311 - spreads load
        )
        if delivery.newer is None:
            return facts
        return msgspec.structs.replace(facts, newer=self._newer(facts, delivery.newer))

    def _newer(self, facts: Facts, newer: NewerMessage) -> Facts | None:
        """Return the facts of the newer message: same person and type, its own version and times."""
        if self.catalog.find(facts.type.name, newer.version) is None:
            return None
        notification_type, _ = self.catalog.resolve(facts.type.name, newer.version, {})
        return msgspec.structs.replace(
            facts,
            # Messages replace each other within one category.
            type=msgspec.structs.replace(notification_type, category=facts.type.category),
            order_blockers=frozenset(),
            expires_at=newer.expires_at,
            send_at_local=newer.send_at_local,
            accepted_at=newer.accepted_at,
        )


def _failover(delivery: ClaimedDelivery, notification_type: NotificationType) -> FailoverState | None:
    if delivery.fallback_for is None or delivery.failed_channel is None:
        return None
    failover = notification_type.policies.failover
    after = failover.after if failover else timedelta()
    failed = delivery.failed_channel
    return FailoverState(delivery.fallback_for, after, failed.confirmed, failed.awaited_at)
