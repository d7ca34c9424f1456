"""What is counted of deliveries can be reported to the parent process."""

import pytest

from tests.unit.engine.attempts import LEASE, NOW, a_claimed_delivery, an_attempt
from tocsin.domain.delivery.outcome import Sent
from tocsin.domain.delivery.states import State
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
