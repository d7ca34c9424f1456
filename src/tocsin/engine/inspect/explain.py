"""Explains what would become of an intent, by the functions that decide about deliveries."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from datetime import datetime
from typing import Literal, TypeAlias, assert_never
from uuid import UUID

import msgspec

from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.decide import (
    Cancel,
    Expire,
    Facts,
    FailoverState,
    Go,
    Hold,
    Skip,
    Step,
    Wait,
    order_step,
)
from tocsin.domain.delivery.held_by import ORDER, stored_held_by
from tocsin.domain.delivery.reasons import MEANING, Reason, Rule
from tocsin.domain.faults import Fault
from tocsin.domain.intent import LARGEST_AUDIENCE, Intent
from tocsin.domain.limits import Allowance, limit_verdict
from tocsin.domain.people.profile import UNKNOWN_RECIPIENT, Destination, RecipientProfile
from tocsin.domain.people.recipient import recipient_of, route_id
from tocsin.domain.plan import PlannedDelivery
from tocsin.engine.accept.audiences import find_people
from tocsin.engine.accept.organisations import outsider_faults
from tocsin.engine.accept.planner import Planner
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.time_slice import TimeSlice, paced
from tocsin.store.broadcasts.members import Members, count_members, next_members
from tocsin.store.deliveries.context import order_blockers
from tocsin.store.deliveries.digests import open_due_at
from tocsin.store.limits import used
from tocsin.store.notifications import NewNotification
from tocsin.store.people import suppressions
from tocsin.store.people.profiles import profiles
from tocsin.store.pool import Connection
from tocsin.wire.notifications import ExplainedDevice, ExplainedRoute, Explanation, wire_steps

MOST_HOLDS = 20
SAMPLE = 20
"""How many people of an audience of many are explained."""

LimitWindow: TypeAlias = tuple[str, datetime]

_RULE_OF: Mapping[Reason, Rule] = {Reason.TOGGLE_OFF: "toggle", Reason.CHANNEL_NOT_FOR_AUDIENCE: "type"}
"""The rules that skip a delivery when it is planned; for any other reason it is `device`."""


class Explainer(msgspec.Struct, frozen=True):
    """Applies acceptance and every rule that would follow, and writes nothing."""

    planner: Planner
    rules: DeliveryRules

    async def explain(
        self, connection: Connection, producer: str, intent: Intent, now: datetime
    ) -> Explanation | list[Fault]:
        """Return what would become of an intent, or what is wrong with it.

        Of an audience of many people, the first ones are explained.
        """
        most = min(self.planner.largest_audience, LARGEST_AUDIENCE)
        found = await find_people(lambda: nullcontext(connection), intent, most)
        accepted = self.planner.check(producer, intent, now)
        if isinstance(accepted, list) or found.faults:
            return accepted if isinstance(accepted, list) else list(found.faults)
        people, total = found.people, None
        if found.members is not None:
            people, total = await _sample(connection, found.members)
        if intent.org_id is not None:
            [outside] = await outsider_faults(lambda: nullcontext(connection), [intent])
            if outside:
                return outside
        # Before anything is awaited: the catalog may be reloaded meanwhile.
        notification_type, _ = self.rules.catalog.resolve(intent.type, intent.version, intent.payload)
        if people:
            deliveries = await paced(self.planner.plan_people(intent, people, now))
            accepted = msgspec.structs.replace(accepted, deliveries=deliveries)
        users = sorted({each.user_id for each in accepted.deliveries if each.user_id is not None})
        known = await profiles(connection, users)
        addresses = [each.address for each in accepted.deliveries if each.address is not None]
        suppressed = await suppressions.of(connection, addresses) if addresses else frozenset()
        forecasts: dict[tuple[str | None, Channel], Forecast] = {}
        taken: Counter[LimitWindow] = Counter()
        slice_ = TimeSlice()
        # A fallback depends on what becomes of the channel that it stands in for.
        for planned in sorted(accepted.deliveries, key=lambda each: each.fallback_for is not None):
            await slice_.pause()
            profile = known.get(planned.user_id or "", UNKNOWN_RECIPIENT)
            if planned.address is not None:
                profile = RecipientProfile(mailbox=planned.address, suppressed=planned.address in suppressed)
            failing = forecasts.get((planned.user_id, planned.fallback_for)) if planned.fallback_for else None
            forecast = Forecast(connection, notification_type, taken, failing)
            forecasts[planned.user_id or planned.address, planned.channel] = forecast
            forecast.route = await self._route(forecast, accepted, planned, profile)
        routes = [
            route
            for each in accepted.deliveries
            if (route := forecasts[each.user_id or each.address, each.channel].route)
        ]
        return Explanation(
            type=accepted.type, version=accepted.version, now=now, routes=routes, audience_size=total
        )

    async def _route(
        self,
        forecast: "Forecast",
        accepted: NewNotification,
        planned: PlannedDelivery,
        profile: RecipientProfile,
    ) -> ExplainedRoute:
        if planned.reason is not None:
            return _never(accepted, planned)
        connection = forecast.connection
        now, steps = await _first_decision(connection, accepted, planned)
        blockers = await order_blockers(connection, planned.ordering_key, now) if planned.ordering_key else ()
        for _ in range(MOST_HOLDS):
            forecast.decided_at.append(now)
            facts = self._facts(forecast, accepted, planned, profile, frozenset(blockers), now)
            verdict = self.rules.decide(facts)
            steps += verdict.steps
            devices: tuple[Destination, ...] = ()
            if isinstance(verdict, Go):
                devices, refusals = await self._limit(forecast, facts, planned.user_id, verdict.destinations)
                verdict = verdict if devices else refusals[0]
                steps += [step for refusal in refusals for step in refusal.steps]
            match verdict:
                case Go() if all(each.id in blockers for each in devices):
                    return _route(accepted, planned, [*steps, order_step(now)], "held", held_by=ORDER)
                case Go():
                    reached = [each for each in devices if each.id not in blockers]
                    steps += [order_step(now)] * (len(reached) < len(devices))
                    return _route(accepted, planned, steps, "sent", at=now, devices=reached)
                case Wait(until=until):
                    now = until
                case Hold(held_by=held_by):
                    return _route(accepted, planned, steps, "held", held_by=stored_held_by(held_by))
                case Skip(reason=reason):
                    return _route(accepted, planned, steps, "skipped", reason=reason)
                case Cancel() | Expire():
                    return _route(accepted, planned, steps, "expired")
                case _:
                    assert_never(verdict)
        return _route(accepted, planned, steps, "held")

    def _facts(
        self,
        forecast: "Forecast",
        accepted: NewNotification,
        planned: PlannedDelivery,
        profile: RecipientProfile,
        blockers: AbstractSet[UUID | None],
        now: datetime,
    ) -> Facts:
        return Facts(
            type=forecast.type,
            channel=planned.channel,
            now=now,
            profile=profile,
            user_id=planned.user_id,
            address=planned.address,
            switched_off=self.rules.switched_off(accepted.type, planned.channel),
            order_blockers=blockers,
            failover=forecast.failover(planned, now),
            expires_at=accepted.expires_at,
            send_at_local=accepted.send_at_local,
            accepted_at=accepted.accepted_at,
        )

    async def _limit(
        self,
        forecast: "Forecast",
        facts: Facts,
        user_id: str | None,
        destinations: tuple[Destination, ...],
    ) -> tuple[tuple[Destination, ...], list[Wait | Skip]]:
        """Return the destinations that limits leave, and the refusals of the person or of single devices."""
        allowances = self.rules.person_allowances(facts, user_id)
        if (full := await forecast.full(allowances)) is not None:
            return (), [limit_verdict(full, facts.now)]
        left: list[Destination] = []
        refusals: list[Wait | Skip] = []
        for destination in destinations:
            of_device = self.rules.device_allowances(facts, destination)
            if (full := await forecast.full(of_device)) is None:
                left.append(destination)
                forecast.take(of_device)
            else:
                refusals.append(limit_verdict(full, facts.now))
        if left:
            forecast.take(allowances)
        return tuple(left), refusals


class Forecast:
    """What is foreseen for one delivery: when it is decided about, and the places within limits it takes.

    `taken` is shared by the deliveries of an intent; `failing` is the forecast of the channel which
    has to fail first.
    """

    def __init__(
        self,
        connection: Connection,
        notification_type: NotificationType,
        taken: "Counter[LimitWindow]",
        failing: "Forecast | None",
    ) -> None:
        self.connection = connection
        self.type = notification_type
        self.decided_at: list[datetime] = []
        self.route: ExplainedRoute | None = None
        self._taken = taken
        self._failing = failing

    def failover(self, planned: PlannedDelivery, now: datetime) -> FailoverState | None:
        """Return the state that the channel which has to fail first will be in at that time."""
        policy = self.type.policies.failover
        if policy is None or planned.fallback_for is None or self._failing is None:
            return None
        sent_at = self._failing.route.at if self._failing.route else None
        confirmed = sent_at is not None and sent_at <= now
        awaited_at = next((each for each in self._failing.decided_at if each > now), None)
        return FailoverState(planned.fallback_for, policy.after, confirmed, awaited_at)

    async def full(self, allowances: Sequence[Allowance]) -> Allowance | None:
        """Return the first limit that is used up."""
        if not allowances:
            return None
        counted = await used(self.connection, allowances)
        return next(
            (
                each
                for each in allowances
                if counted.get(each.key, 0) + self._taken[each.key, each.ends_at] >= each.limit
            ),
            None,
        )

    def take(self, allowances: Sequence[Allowance]) -> None:
        """Count a place within each limit."""
        self._taken.update((each.key, each.ends_at) for each in allowances)


async def _sample(connection: Connection, members: Members) -> tuple[Sequence[str], int]:
    """Return the first people of an audience, and how many it has."""
    async with connection.transaction():
        total = await count_members(connection, members)
    return (await next_members(connection, members, "", SAMPLE)).people, total


async def _first_decision(
    connection: Connection, accepted: NewNotification, planned: PlannedDelivery
) -> tuple[datetime, list[Step]]:
    """Return when it is decided first: at its time, or when the digest that it joins is due."""
    if planned.digest_key is None:
        return planned.due_at, []
    due_at = max(await open_due_at(connection, planned.digest_key) or planned.due_at, accepted.accepted_at)
    detail = "collected, to be sent as part of a digest"
    return due_at, [Step(rule="digest", result="hold", detail=detail, at=accepted.accepted_at, until=due_at)]


def _never(accepted: NewNotification, planned: PlannedDelivery) -> ExplainedRoute:
    reason = planned.reason or Reason.CHANNEL_NOT_FOR_RECIPIENT
    rule = _RULE_OF.get(reason, "device")
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
    devices: Iterable[Destination] = (),
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
