"""What a worker remembers of deliveries that it settled or sent."""

from typing import cast

from tests.unit.engine.attempts import LEASE, NOW, an_attempt
from tocsin.domain.ids import new_lease_id
from tocsin.engine.settle.settlements import settle_untried
from tocsin.engine.settle.writer import SettlementWriter
from tocsin.store.pool import Pool


def a_writer() -> SettlementWriter:
    return SettlementWriter(
        cast("Pool", None), lambda: NOW, on_release=lambda: None, raise_alarm=lambda _: None
    )


def test_what_was_free_when_it_was_claimed_again_is_not_settled_from_memory() -> None:
    """Its settlement is written already: written again, it would spend an attempt without a send."""
    writer, attempt = a_writer(), an_attempt()
    writer.put(settle_untried(attempt, NOW))

    assert not writer.settle_known(attempt.id, new_lease_id(), taken_over=False)
    assert writer.settle_known(attempt.id, LEASE, taken_over=True)
