"""What is counted of deliveries: for the parent process, and for the plots of the dashboard."""

from datetime import timedelta

import pytest

from tests.unit.engine.attempts import LEASE, NOW, a_claimed_delivery, an_attempt
from tocsin.domain.delivery.latency import bucket_of
from tocsin.domain.delivery.outcome import Retry, Sent
from tocsin.domain.delivery.states import State
from tocsin.engine.health.activity import Activity
from tocsin.engine.settle import report
from tocsin.engine.settle.report import report_outcomes, report_rejected_by_bug, report_unsent
from tocsin.store.deliveries.settle import UnsentDelivery
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import decode_samples, encode_samples, read_samples


def test_a_delivery_without_a_type_is_counted_under_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics.switch, "on", True)
    attempt = an_attempt(delivery=a_claimed_delivery(type=None))
    unsent = UnsentDelivery(id=attempt.id, lease=LEASE, state=State.DEAD, tried_at=NOW)

    report_unsent(attempt, unsent)
    report_rejected_by_bug(attempt)
    report_outcomes("fcm", [attempt], [Sent("m1")], NOW, NOW)

    settled = decode_samples(encode_samples(read_samples()))[metrics.settled.name]
    assert {labels[2:4] for labels in settled if labels[0] == ""} >= {
        ("", "dead"),
        ("", "rejected"),
        ("fcm", "sent"),
    }


def test_the_time_until_a_delivery_was_sent_is_counted_once_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Activity()
    monkeypatch.setattr(report, "activity", counted)
    second, minute = timedelta(seconds=1), timedelta(minutes=1)
    attempt = an_attempt(delivery=a_claimed_delivery(accepted_at=NOW - minute, due_at=NOW - second))

    report_outcomes("fcm", [attempt, attempt], [Sent("m1"), Retry("BUSY")], NOW, NOW)

    assert counted.since_accepted == {bucket_of(minute): 1}
    assert counted.since_due == {bucket_of(second): 1}
