"""Counters, gauges and histograms: what they show, and that their number is bounded."""

import pytest

from tocsin.telemetry.instruments import OTHER, Counter, Gauge, Histogram


def test_a_counter_adds_up_by_labels() -> None:
    counter = Counter("sent_total", "", ("provider",))
    for provider, amount in (("fcm", 1), ("fcm", 2), ("apns", 5)):
        counter.add((provider,), amount)

    assert counter.read() == {("fcm",): 3, ("apns",): 5}


def test_labels_beyond_the_most_series_are_counted_together() -> None:
    counter = Counter("failed_total", "", ("provider", "code"), most_series=2)
    for code in ("a", "b", "hostile-1", "hostile-2", "a"):
        counter.add(("webhook", code))

    assert counter.read() == {("webhook", "a"): 2, ("webhook", "b"): 1, (OTHER, OTHER): 2}


def test_a_bucket_has_the_values_up_to_its_bound() -> None:
    histogram = Histogram("call_seconds", "", bounds=(0.1, 1))
    for value in (0.05, 0.1, 0.5, 7):
        histogram.observe((), value)

    assert histogram.read() == {(): [2, 1, 1, pytest.approx(7.65)]}


def test_a_replaced_gauge_drops_what_is_not_there_any_more() -> None:
    gauge = Gauge("depth", "", ("lane",))
    gauge.set(("fcm",), 3)
    gauge.replace({("apns",): 1})

    assert gauge.read() == {("apns",): 1}


@pytest.mark.parametrize("labels", [(), ("fcm", "more")])
def test_a_series_has_every_label(labels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="has the labels"):
        Counter("sent_total", "", ("provider",)).add(labels)


@pytest.mark.parametrize(
    ("name", "unit"), [("a_seconds", "seconds"), ("a_seconds_total", "seconds"), ("rows_total", "")]
)
def test_the_unit_is_in_the_name(name: str, unit: str) -> None:
    assert Counter(name, "").unit == unit
