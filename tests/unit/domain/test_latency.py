"""Histograms of the time until deliveries are sent."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.delivery.latency import LAST_BUCKET, bucket_of, quantile

WIDTH = 2 ** (1 / 4)


@pytest.mark.parametrize(
    ("milliseconds", "bucket"),
    [(-5_000, 0), (0, 0), (1, 0), (1.2, 1), (2, 4), (1_000, 39), (60_000, 63), (86_400_000, 105)],
)
def test_a_bucket_is_a_quarter_of_an_octave(milliseconds: float, bucket: int) -> None:
    assert bucket_of(timedelta(milliseconds=milliseconds)) == bucket


@pytest.mark.parametrize("longest", [timedelta(days=60), timedelta.max])
def test_the_longest_times_share_a_bucket(longest: timedelta) -> None:
    assert bucket_of(longest) == LAST_BUCKET


def test_nothing_has_no_quantile() -> None:
    assert quantile({}, 0.5) is None
    assert quantile({3: 0}, 0.99) is None


@given(
    st.lists(st.integers(2_000, 3_000_000_000), min_size=1, max_size=300),
    st.sampled_from([0.5, 0.95, 0.99, 1.0]),
)
def test_a_quantile_is_as_near_as_its_bucket_is_wide(microseconds: list[int], share: float) -> None:
    counts = Counter(bucket_of(timedelta(microseconds=each)) for each in microseconds)
    rank = max(0, -int(-share * len(microseconds) // 1) - 1)
    true = sorted(microseconds)[rank] / 1_000_000

    found = quantile(counts, share)

    assert found is not None
    assert true / WIDTH * 0.999 <= found <= true * WIDTH * 1.001
