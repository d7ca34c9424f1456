"""Sorting what was claimed: what may leave, what waits, what never leaves."""

import random
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, assert_never

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import NotificationType, Payload, Policies
from tocsin.domain.decide import Case, FailoverState, Go, Hold, Skip, Step, decide, expiry_of, zone_of
from tocsin.domain.delivery.outcome import Rejected
from tocsin.domain.delivery.reasons import MEANING, Reason
from tocsin.domain.limits import Allowance, LimitsSettings, device_allowances, person_allowances
from tocsin.domain.timing.quiet_hours import QuietHours
from tocsin.engine.dispatch.attempt import aim_at
from tocsin.engine.dispatch.claimer import Claim
from tocsin.engine.dispatch.destinations import reachable
from tocsin.engine.dispatch.malformed import note_oddities
from tocsin.engine.settle.settlements import buried, ended, held, paused, settlement, skipped
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.deliveries.claim import ClaimedDelivery, ReachedDevice
from tocsin.store.deliveries.settle import SentDelivery, UnsentDelivery

_payload_decoder = msgspec.json.Decoder(dict[str, Any])


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that every rule lets pass, with the devices it can go to and what it counts against."""

    claimed: ClaimedDelivery
    kind: NotificationType
    payload: Payload
    steps: tuple[Step, ...]
    devices: tuple[ReachedDevice, ...]
    allowances: tuple[Allowance, ...]
    expires_at: datetime | None


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """Decides about each claimed delivery by the rules of the domain."""

    catalog: Catalog
    providers: AbstractSet[str]
    toggles: Toggles
    quiet: QuietHours
    limits: LimitsSettings

    def decide(
        self, claimed: ClaimedDelivery, claim: Claim, now: datetime
    ) -> Admitted | SentDelivery | UnsentDelivery:
        """Admit a delivery, or settle it without an attempt."""
        if self.catalog.find(claimed.type, claimed.version) is None:
            gone = Rejected("type_unknown", f"{claimed.type} v{claimed.version} is no longer in the catalog")
            nowhere = aim_at(claimed, claim.lease, ())
            return settlement(nowhere, gone, policies=Policies(), tried_at=now, now=now, random=0.0)
        kind, payload = self.catalog.resolve(
            claimed.type, claimed.version, _payload_decoder.decode(claimed.payload)
        )
        case = self.case(claimed, kind, now)
        note_oddities(claimed.user_id, case, self.quiet)
        verdict = decide(case, self.quiet)
        aim = aim_at(claimed, claim.lease, verdict.steps)
        match verdict:
            case Skip():
                return ended(aim, verdict, now)
            case Hold():
                return held(aim, verdict, now)
            case Go():
                pass
            case _:
                assert_never(verdict)
        if claimed.rescued and claimed.attempts >= kind.policies.attempts_for(claimed.channel):
            return buried(aim, now)
        devices = self._usable(claimed)
        if isinstance(devices, Reason):
            step = Step(rule="device", result="skip", detail=MEANING[devices], at=now)
            return skipped(aim.after(step), devices, now)
        if isinstance(devices, str):
            return paused(aim, devices, now)
        return Admitted(
            claimed=claimed,
            kind=kind,
            payload=payload,
            steps=verdict.steps,
            devices=devices,
            allowances=() if claimed.reserved else self._allowances(case, claimed),
            expires_at=expiry_of(case, zone_of(case, self.quiet)),
        )

    def case(self, claimed: ClaimedDelivery, kind: NotificationType, now: datetime) -> Case:
        """Put together what a decision depends on."""
        return Case(
            kind=kind,
            channel=claimed.channel,
            now=now,
            person=claimed.person,
            device_timezone=claimed.devices[0].timezone if claimed.devices else None,
            off_by=self.toggles.off_by(claimed.type, claimed.channel),
            behind=claimed.behind,
            superseded=claimed.superseded,
            stands_in=_stands_in(claimed, kind),
            cancelled=claimed.cancelled,
            expires_at=claimed.expires_at,
            send_at_local=claimed.send_at_local,
            accepted_at=claimed.accepted_at,
            random=random.random() if self.quiet.spread else 0.0,  # noqa: S311 - spreads load
        )

    def device_allowances(
        self, admitted: Admitted, device: ReachedDevice, now: datetime
    ) -> tuple[Allowance, ...]:
        """List what a push to a device counts against."""
        if self.limits.per_device_per_day is None or device.id is None:
            return ()
        zone = zone_of(self.case(admitted.claimed, admitted.kind, now), self.quiet).zone
        return tuple(device_allowances(self.limits, device.id, zone, now))

    def _usable(self, claimed: ClaimedDelivery) -> tuple[ReachedDevice, ...] | Reason | str:
        """Give what it can go to, why there is nothing, or the provider that is switched off."""
        reached = reachable(claimed)
        if isinstance(reached, Reason):
            return reached
        known = tuple(device for device in reached if device.provider in self.providers)
        if not known:
            return Reason.PROVIDER_UNAVAILABLE
        usable = tuple(device for device in known if self.toggles.provider_on(device.provider))
        if not usable:
            return known[0].provider
        return known

    def _allowances(self, case: Case, claimed: ClaimedDelivery) -> tuple[Allowance, ...]:
        if claimed.user_id is None or case.kind.policies.critical:
            return ()
        zone = zone_of(case, self.quiet).zone
        return tuple(person_allowances(self.limits, case.kind, claimed.user_id, zone, case.now))


def _stands_in(claimed: ClaimedDelivery, kind: NotificationType) -> FailoverState | None:
    if claimed.fallback_for is None:
        return None
    failover = kind.policies.failover
    after = failover.after if failover else timedelta()
    return FailoverState(claimed.fallback_for, after, claimed.confirmed, claimed.awaited_at)
