"""Counts and logs what became of deliveries."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from tocsin.domain.delivery.outcome import Outcome, Sent
from tocsin.domain.delivery.states import WAITING, State
from tocsin.engine.dispatch.attempt import Attempt, LeasedDelivery
from tocsin.engine.health.activity import activity
from tocsin.logs import sent_lines
from tocsin.store.deliveries.settle import Settlement, UnsentDelivery
from tocsin.telemetry import metrics

INTERNAL_ERROR: Final = "internal_error"

_log = structlog.stdlib.get_logger(__name__)


def report_outcomes(
    provider: str,
    attempts: Sequence[Attempt],
    outcomes: Sequence[Outcome],
    began: datetime,
    now: datetime,
    *,
    calls: int = 1,
) -> None:
    """Report calls to a provider and what it took; what it did not take is reported when it is settled."""
    counts = metrics.switch.on
    if counts:
        metrics.provider_call.observe((provider,), (now - began).total_seconds(), calls)
    sent = [attempt for attempt, outcome in zip(attempts, outcomes, strict=True) if isinstance(outcome, Sent)]
    activity.add_sent([(each.delivery.accepted_at, each.delivery.due_at) for each in sent], now)
    if counts:
        for attempt in sent:
            _count_sent(provider, attempt, now)
    for attempt in sent[: sent_lines.take_up_to(len(sent))]:
        _log.info(
            "delivery settled",
            **attempt.log_fields(),
            state=State.SENT,
            provider=provider,
            attempts=attempt.attempts + 1,
            left_out=sent_lines.left_out(),
        )


def _count_sent(provider: str, attempt: Attempt, now: datetime) -> None:
    delivery, channel = attempt.delivery, attempt.channel
    path = (channel, provider)
    metrics.settled.add((_type_of(attempt), channel, provider, "sent", ""))
    metrics.accepted_to_sent.observe(path, (now - delivery.accepted_at).total_seconds())
    metrics.due_to_sent.observe(path, (now - delivery.due_at).total_seconds())


def report_unsent(attempt: LeasedDelivery, settled: UnsentDelivery) -> None:
    """Report an attempt that failed, or a delivery that was not sent, for now or for good."""
    is_final = settled.state not in WAITING
    if settled.state is State.SKIPPED:
        activity.add("skipped")
    if metrics.switch.on:
        provider = settled.provider or ""
        if settled.outcome:
            failed = (attempt.channel, provider, settled.outcome, settled.code or "", str(settled.state))
            metrics.attempts_failed.add(failed)
        if is_final:
            of = (_type_of(attempt), attempt.channel, provider)
            metrics.settled.add((*of, str(settled.state), str(settled.reason or "")))
    if is_final:
        log = _log.error if settled.state is State.DEAD else _log.info
        log(
            "delivery settled",
            **attempt.log_fields(),
            state=settled.state,
            reason=settled.reason,
            provider=settled.provider,
            code=settled.code,
            detail=settled.detail,
            attempts=attempt.attempts + settled.spent,
            # Its producer believes it is on its way.
            alarm=True if settled.state is State.DEAD else None,
        )
        return
    _log.info(
        "attempt failed" if settled.outcome else "delivery not sent",
        **attempt.log_fields(),
        state=settled.state,
        reason=settled.reason,
        held_by=settled.held_by,
        recovering=settled.recovering or None,
        provider=settled.provider,
        code=settled.code,
        detail=settled.detail,
    )


def report_rejected_by_bug(delivery: LeasedDelivery | Settlement) -> None:
    """Count a delivery that is rejected because a step raised; the error is logged where it was caught."""
    if metrics.switch.on:
        type_, channel = "", ""
        if isinstance(delivery, LeasedDelivery):
            type_, channel = _type_of(delivery), delivery.channel
        metrics.attempts_failed.add((channel, "", "rejected", INTERNAL_ERROR, str(State.REJECTED)))
        metrics.settled.add((type_, channel, "", str(State.REJECTED), ""))


def report_written(settlements: int, written: int, seconds: float) -> None:
    """Report settlements that were written together; those beyond `written` had lost their lease."""
    if metrics.switch.on:
        metrics.settle_size.observe((), settlements)
        metrics.settle_duration.observe((), seconds)
        metrics.leases_lost.add((), settlements - written)


def report_receipts(
    provider: str, *, delivered: Sequence[UUID], refused: int, not_yet: int, missing: int
) -> None:
    """Report the receipts of a batch; what one refused is settled again, and reported then."""
    if metrics.switch.on:
        counts = {"delivered": len(delivered), "refused": refused, "not_yet": not_yet, "missing": missing}
        for result, count in counts.items():
            metrics.receipts.add((provider, result), count)
    for delivery_id in delivered:
        if sent_lines.take():
            _log.info(
                "delivery confirmed",
                delivery_id=str(delivery_id),
                provider=provider,
                state=State.DELIVERED,
                left_out=sent_lines.left_out(),
            )


def _type_of(delivery: LeasedDelivery) -> str:
    if isinstance(delivery, Attempt):
        # What it belongs to may be gone, and a label is a text.
        return delivery.delivery.type or ""
    return delivery.type.name if delivery.type else ""
