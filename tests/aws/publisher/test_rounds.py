"""The order of messages, whatever SNS refuses and whatever waits already."""

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.aws.publisher.office import envelope
from tocsin.aws.publisher.progress import row_key
from tocsin.aws.publisher.round import OpenRow, Round
from tocsin.ingress.outbox.rows import Failed, Held, Published, Row
from tocsin.wire.fisa.envelope import FisaEnvelope

NOW = datetime(2026, 3, 1, tzinfo=UTC)
people = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)


def opened(number: int, users: list[str]) -> OpenRow:
    row = Row(id=number, payload="", type=None, failed_attempts=0, ordering_key=None)
    written = msgspec.convert(envelope(recipients=users), FisaEnvelope)
    return OpenRow(row, row_key(number), written, ())


@given(st.lists(people, min_size=1, max_size=8), st.data())
def test_over_many_rounds_nobody_is_overtaken_and_everybody_is_reached_once(
    recipients: list[list[str]], data: st.DataObject
) -> None:
    rows = [opened(number, users) for number, users in enumerate(recipients)]
    taken: dict[str, list[int]] = {}
    is_due = {row.row.id: True for row in rows}
    for attempt in range(50):
        due = [row for row in rows if row.waiting and is_due[row.row.id]]
        later = [row for row in rows if row.waiting and not is_due[row.row.id]]
        first = {group.key: row.row.position for row in reversed(later) for group in row.waiting}
        for row in due:
            row.refused.clear()
            row.held.clear()
        round_ = Round(due, first, fifo=True)
        while wave := round_.wave():
            assert len({group.key for _, group in wave}) == len(wave)
            for pending in wave:
                if attempt < 8 and data.draw(st.booleans()):
                    round_.settle(pending, "InternalError")
                else:
                    round_.settle(pending, None)
                    taken.setdefault(pending.group.name, []).append(pending.row.row.id)
        for row in due:
            result = row.result(NOW)
            assert isinstance(result, Published) == (not row.waiting)
            assert isinstance(result, Failed) == bool(row.refused)
            assert isinstance(result, Held | Failed) == bool(row.publication())
        if not any(row.waiting for row in rows):
            break
        # Rows become due at times of their own.
        is_due = {row.row.id: attempt > 20 or data.draw(st.booleans()) for row in rows}

    expected: dict[str, list[int]] = {}
    for number, users in enumerate(recipients):
        named: list[str | None] = [*users] or [None]
        for user in named:
            expected.setdefault(f"user-{user}" if user else "broadcast", []).append(number)
    assert taken == expected


def test_on_a_standard_topic_a_refused_message_holds_back_nobody() -> None:
    rows = [opened(number, ["a"]) for number in range(3)]
    round_ = Round(rows, {}, fifo=False)
    for pending in round_.wave():
        round_.settle(pending, "InternalError" if pending.row is rows[0] else None)

    assert [type(row.result(NOW)) for row in rows] == [Failed, Published, Published]
    assert not round_.wave()
