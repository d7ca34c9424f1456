"""The same decisions, nothing written: why each person will or will not hear of it, and when."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Literal

import msgspec

from tocsin.domain.decide import NOBODY, Step
from tocsin.domain.delivery.reasons import MEANING, Reason
from tocsin.domain.delivery.states import State
from tocsin.domain.faults import Fault
from tocsin.domain.ids import new_lease_id
from tocsin.domain.intent import Intent
from tocsin.domain.limits import Allowance
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.domain.plan import PlannedDelivery
from tocsin.engine.accept.planner import Planner
from tocsin.engine.dispatch.claimer import Claim
from tocsin.engine.dispatch.rules import Admitted, Triage
from tocsin.store.deliveries.claim import ClaimedDelivery, ReachedDevice
from tocsin.store.deliveries.digests import open_due_at
from tocsin.store.deliveries.settle import UnsentDelivery
from tocsin.store.limits import used
from tocsin.store.notifications import NewNotification
from tocsin.store.people import suppressions
from tocsin.store.people.profiles import RecipientProfile, people
from tocsin.store.pool import Connection
from tocsin.wire.notifications import ExplainedDevice, ExplainedRoute, Explanation, wire_steps

MOST_HOLDS = 20

_steps = msgspec.json.Decoder(list[Step])


class Explainer(msgspec.Struct, frozen=True):
    """Walks an intent through acceptance and every decision that would follow."""

    planner: Planner
    triage: Triage

    async def explain(
        self, connection: Connection, producer: str, intent: Intent, now: datetime
    ) -> Explanation | list[Fault]:
        """Tell what would happen to an intent, or what is wrong with it."""
        accepted = self.planner.check(producer, intent, now)
        if isinstance(accepted, list):
            return accepted
        planned = [each for each in accepted.deliveries if each.user_id is not None]
        known = await people(
            connection,
            [each.user_id or "" for each in planned],
            [each.ordering_key for each in planned],
        )
        addresses = [each.address for each in accepted.deliveries if each.address is not None]
        suppressed = await suppressions.of(connection, addresses) if addresses else frozenset()
        routes = [
            await self._route(
                connection,
                accepted,
                each,
                known.get(each.user_id or "") or _stranger(each.address, suppressed),
            )
            for each in accepted.deliveries
        ]
        return Explanation(type=accepted.type, version=accepted.version, now=now, routes=routes)

    async def _route(
        self,
        connection: Connection,
        accepted: NewNotification,
        planned: PlannedDelivery,
        whom: RecipientProfile,
    ) -> ExplainedRoute:
        if planned.reason is not None:
            return _never(accepted, planned)
        now, steps = await _collected(connection, accepted, planned)
        for _ in range(MOST_HOLDS):
            decided = self._decide(accepted, planned, whom, now)
            if isinstance(decided, Admitted):
                steps += decided.steps
                full = await self._full(connection, decided)
                if full is None:
                    return _route(accepted, planned, steps, "sent", at=now, devices=decided.devices)
                steps.append(_limited(full, now))
                if full.beyond == "skip":
                    return _route(accepted, planned, steps, "skipped", reason=full.reason)
                now = full.ends_at
                continue
            steps += _steps.decode(decided.decisions or "[]")
            if decided.state is State.EXPIRED:
                return _route(accepted, planned, steps, "expired")
            if decided.state is State.SKIPPED:
                return _route(accepted, planned, steps, "skipped", reason=decided.reason)
            if decided.due_at is None:
                return _route(accepted, planned, steps, "held", held_by=decided.held_by)
            now = decided.due_at
        return _route(accepted, planned, steps, "held")

    def _decide(
        self, accepted: NewNotification, planned: PlannedDelivery, whom: RecipientProfile, now: datetime
    ) -> Admitted | UnsentDelivery:
        claimed = ClaimedDelivery(
            id=planned.id,
            notification_id=accepted.id,
            channel=planned.channel,
            due_at=now,
            attempts=0,
            rescued=False,
            behind=whom.behind,
            superseded=False,
            user_id=planned.user_id,
            address=planned.address,
            device_id=None,
            ordering_key=planned.ordering_key,
            reserved=False,
            digest_key=planned.digest_key,
            digest_id=None,
            type=accepted.type,
            version=accepted.version,
            payload=accepted.payload.decode(),
            collapse_key=accepted.collapse_key,
            expires_at=accepted.expires_at,
            send_at_local=accepted.send_at_local,
            accepted_at=accepted.accepted_at,
            cancelled=False,
            producer=accepted.producer,
            request_id=accepted.request_id,
            trace_id=accepted.trace_id,
            mailbox=planned.address or whom.mailbox if planned.channel == "email" else None,
            suppressed=whom.suppressed,
            fallback_for=planned.fallback_for,
            confirmed=False,
            awaited_at=None,
            person=whom.person,
            locale=whom.locale,
            devices=tuple(
                device
                for device in whom.devices
                if (device.provider == "webhook") == (planned.channel == "webhook")
            ),
        )
        decided = self.triage.decide(claimed, Claim(new_lease_id(), [claimed]), now)
        if not isinstance(decided, Admitted | UnsentDelivery):
            raise TypeError("a decision sends nothing by itself")
        return decided

    async def _full(self, connection: Connection, admitted: Admitted) -> Allowance | None:
        if not admitted.allowances:
            return None
        counted = await used(connection, admitted.allowances)
        return next((each for each in admitted.allowances if counted.get(each.key, 0) >= each.limit), None)


def _stranger(address: str | None, suppressed: AbstractSet[str]) -> RecipientProfile:
    """Tell what is known of a mere address, or of somebody never heard of."""
    return RecipientProfile(
        user_id="",
        behind=False,
        mailbox=address,
        suppressed=address in suppressed,
        person=NOBODY,
        locale=None,
        devices=(),
    )


async def _collected(
    connection: Connection, accepted: NewNotification, planned: PlannedDelivery
) -> tuple[datetime, list[Step]]:
    """Tell when it is decided first: at its time, or when the digest that it is part of falls due."""
    if planned.digest_key is None:
        return planned.due_at, []
    due_at = max(await open_due_at(connection, planned.digest_key) or planned.due_at, accepted.accepted_at)
    detail = "collected, to be sent as part of a digest"
    return due_at, [Step(rule="digest", result="hold", detail=detail, at=accepted.accepted_at, until=due_at)]


def _limited(full: Allowance, now: datetime) -> Step:
    if full.beyond == "defer":
        return Step(rule="limit", result="hold", detail=full.detail, at=now, until=full.ends_at)
    return Step(rule="limit", result="skip", detail=full.detail, at=now)


def _never(accepted: NewNotification, planned: PlannedDelivery) -> ExplainedRoute:
    reason = planned.reason or Reason.CHANNEL_NOT_FOR_RECIPIENT
    rule: Literal["toggle", "device"] = "toggle" if reason is Reason.TOGGLE_OFF else "device"
    step = Step(rule=rule, result="skip", detail=MEANING[reason], at=accepted.accepted_at)
    return _route(accepted, planned, [step], "skipped", reason=reason)


def _route(
    accepted: NewNotification,
    planned: PlannedDelivery,
    steps: Sequence[Step],
    outcome: Literal["sent", "held", "skipped", "expired"],
    *,
    at: datetime | None = None,
    reason: str | None = None,
    held_by: str | None = None,
    devices: Iterable[ReachedDevice] = (),
) -> ExplainedRoute:
    recipient = recipient_of(planned.user_id, planned.address, accepted.type)
    return ExplainedRoute(
        route_id=route_id(planned.channel, recipient),
        recipient=str(recipient),
        channel=planned.channel,
        outcome=outcome,
        at=at,
        reason=reason,
        held_by=held_by,
        steps=wire_steps(steps),
        devices=[ExplainedDevice(each.id, each.provider, each.platform) for each in devices],
    )
