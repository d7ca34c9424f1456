import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tocsin.domain.ids import (
    Generator,
    created_at,
    new_delivery_id,
    new_device_id,
    new_lease_id,
    new_notification_id,
    uuid7,
)


def milliseconds_of(made: uuid.UUID) -> int:
    return made.int >> 80


def test_ids_of_one_process_increase_even_within_a_millisecond() -> None:
    made = [uuid7() for _ in range(20_000)]

    assert all(earlier < later for earlier, later in pairwise(made))


def test_ids_carry_version_and_variant_of_uuid7() -> None:
    for made in (uuid7() for _ in range(5_000)):
        assert made.version == 7
        assert made.variant == uuid.RFC_4122


def test_ids_tell_when_they_were_made() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid7()
    after = time.time_ns() // 1_000_000

    # A burst of ids may run a little ahead of the clock.
    assert before <= milliseconds_of(made) <= after + 10


def test_ids_go_on_increasing_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = uuid7()
    earlier = time.time_ns() - 3_600_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: earlier)

    assert first < uuid7() < uuid7()


def test_ids_go_on_increasing_when_the_counter_of_a_millisecond_is_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: frozen)
    # One of its own: it runs ahead of the clock, which other tests do not expect of theirs.
    generator = Generator()

    made = [generator.next() for _ in range(10_000)]

    assert all(earlier < later for earlier, later in pairwise(made))
    assert {each.version for each in made} == {7}
    assert {each.variant for each in made} == {uuid.RFC_4122}
    assert milliseconds_of(made[-1]) == frozen // 1_000_000 + 10_000 // 4_096


def test_ids_made_by_several_threads_are_distinct() -> None:
    made: list[uuid.UUID] = []
    threads = [
        threading.Thread(target=lambda: made.extend([uuid7() for _ in range(2_000)])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 8_000


def test_every_kind_of_id_is_one() -> None:
    for make in (new_notification_id, new_delivery_id, new_device_id, new_lease_id):
        assert make().version == 7


def test_the_time_of_an_id_is_read_from_it() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)

    made_at = created_at(uuid7())

    assert made_at is not None
    assert before <= made_at <= datetime.now(UTC) + timedelta(seconds=1)
    assert created_at(uuid.uuid4()) is None
