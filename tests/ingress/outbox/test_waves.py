from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from tocsin.ingress.outbox.accept import waves
from tocsin.ingress.outbox.rows import Row

KEYS = st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=60)


def _rows(keys: list[str | None]) -> list[Row]:
    return [Row(number, "{}", None, 0, key) for number, key in enumerate(keys)]


@given(KEYS)
def test_every_row_goes_in_one_wave_and_no_key_twice_in_the_same(keys: list[str | None]) -> None:
    rows = _rows(keys)

    parted = waves(rows)

    assert sorted(row for wave in parted for row in wave) == rows
    for wave in parted:
        named = [row.ordering_key for row in wave if row.ordering_key is not None]
        assert len(named) == len(set(named))


@given(KEYS)
def test_rows_of_one_key_keep_their_order_in_as_few_waves_as_can_be(keys: list[str | None]) -> None:
    rows = _rows(keys)
    by_key: defaultdict[str | None, list[Row]] = defaultdict(list)
    for row in (row for wave in waves(rows) for row in wave):
        by_key[row.ordering_key].append(row)

    for key, gone in by_key.items():
        assert gone == [row for row in rows if row.ordering_key == key]
    longest = max((len(gone) for key, gone in by_key.items() if key is not None), default=min(len(rows), 1))
    assert len(waves(rows)) == longest
