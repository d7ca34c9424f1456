"""Attempts as they stand before they are settled."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from tocsin.domain.catalog import NotificationType, Policies
from tocsin.domain.decide import Step
from tocsin.domain.delivery.backoff import Ladder
from tocsin.domain.ids import LeaseId, new_delivery_id, new_notification_id, uuid7
from tocsin.domain.people.profile import Destination, RecipientProfile
from tocsin.engine.dispatch.attempt import Attempt
from tocsin.store.deliveries.claim import ClaimedDelivery

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TRIED = NOW - timedelta(seconds=2)
SECOND = timedelta(seconds=1)
LEASE = LeaseId(UUID(int=7))
THREE = Policies(attempts={"push": 3}, backoff=Ladder((SECOND, 10 * SECOND)))
PHONE = Destination(uuid7(), "token", "fcm", "android", last_seen_at=NOW - timedelta(hours=1))
STEP = Step(rule="toggle", result="pass", detail="switched on", at=NOW)


def an_attempt(attempts: int = 0, policies: Policies = THREE, **changes: Any) -> Attempt:
    """Return an attempt that was decided, has its device and was tried; with earlier ones it is retrying."""
    attempt = Attempt.of(a_claimed_delivery(attempts=attempts, retrying=attempts > 0), LEASE, NOW)
    attempt.type = NotificationType(
        name="t",
        version=1,
        category="c",
        channels=("push",),
        default_locale="en",
        payload_schema={},
        policies=policies,
    )
    attempt.destination, attempt.steps, attempt.tried_at = PHONE, (STEP,), TRIED
    return msgspec.structs.replace(attempt, **changes)


def a_claimed_delivery(**changes: Any) -> ClaimedDelivery:
    claimed = ClaimedDelivery(
        id=new_delivery_id(),
        notification_id=new_notification_id(),
        digest_id=None,
        channel="push",
        due_at=NOW,
        attempts=0,
        retrying=False,
        taken_over=False,
        lost_alone=False,
        user_id="ada",
        address=None,
        device_id=None,
        ordering_key=None,
        order_blockers=(),
        reserved=False,
        recovering=False,
        type="t",
        version=1,
        payload="{}",
        collapse_key=None,
        expires_at=None,
        send_at_local=None,
        accepted_at=NOW,
        cancelled=False,
        producer="p",
        request_id=None,
        trace_id=None,
        reference=None,
        external_id=None,
        fallback_for=None,
        failed_channel=None,
        newer=None,
        profile=RecipientProfile(devices=(PHONE,)),
    )
    return msgspec.structs.replace(claimed, **changes)
