from datetime import UTC, datetime, timedelta

from tests.engine.stage import Stage, an_intent
from tocsin.engine.accept.answers import Accepted


async def test_what_a_digest_collects_is_answered_with_the_end_of_its_window(stage: Stage) -> None:
    now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    acceptor = stage.an_acceptor(clock=lambda: now)
    gathered = an_intent("ada", type="gathered", payload={})
    timed = an_intent(
        "ada", type="gathered", payload={}, idempotency_key="timed", send_at=now + timedelta(days=1)
    )

    collected, scheduled = await acceptor.accept("shop", [gathered, timed])

    assert isinstance(collected, Accepted)
    assert isinstance(scheduled, Accepted)
    assert (collected.waits_for, collected.waits_until) == ("digest", now + timedelta(hours=1))
    assert (scheduled.waits_for, scheduled.waits_until) == ("send_at", now + timedelta(days=1))
