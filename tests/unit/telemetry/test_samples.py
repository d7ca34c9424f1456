"""The samples of a process tree: added up, kept after a death, and carried as lines."""

import msgspec
import pytest

from tocsin.telemetry.metrics import BY_NAME
from tocsin.telemetry.samples import Samples, TreeSamples, decode_samples, encode_samples

SENT = "tocsin_deliveries_settled_total"
CALLS = "tocsin_provider_call_seconds"
IN_FLIGHT = "tocsin_provider_messages_in_flight"
LAG = "tocsin_relay_lag_seconds"
LABELS = ("new_customer", "push", "fcm", "sent", "")
NONE = [0.0] * len(BY_NAME[CALLS].bounds)


def of_worker(sent: int, in_flight: int = 0, lag: float = 0) -> Samples:
    return {
        SENT: {LABELS: sent},
        CALLS: {("fcm",): [float(sent), *NONE, 2.5]},
        IN_FLIGHT: {("fcm",): in_flight},
        LAG: {("shop",): lag},
    }


def tree() -> TreeSamples:
    return TreeSamples(own=lambda: {"tocsin_processes": {("worker",): 2}})


def test_processes_are_added_up_and_a_lag_is_the_largest() -> None:
    samples = tree()
    samples.report(1, of_worker(10, in_flight=3, lag=7))
    samples.report(2, of_worker(5, in_flight=4, lag=2))

    assert samples.read() == {
        "tocsin_processes": {("worker",): 2},
        SENT: {LABELS: 15},
        CALLS: {("fcm",): [15, *NONE, 5]},
        IN_FLIGHT: {("fcm",): 7},
        LAG: {("shop",): 7},
    }


def test_a_process_that_ends_keeps_its_counts_and_its_successor_adds_to_them() -> None:
    samples = tree()
    samples.report(1, of_worker(10, in_flight=3))
    samples.end(1)
    ended = samples.read()
    samples.report(2, of_worker(1))

    assert ended[SENT] == {LABELS: 10}
    assert IN_FLIGHT not in ended
    assert samples.read()[SENT] == {LABELS: 11}
    assert samples.read()[CALLS] == {("fcm",): [11, *NONE, 5]}


def test_one_that_never_reported_ends_without_a_trace() -> None:
    samples = tree()
    samples.end(7)

    assert samples.read() == {"tocsin_processes": {("worker",): 2}}


def test_a_line_carries_samples_whole() -> None:
    line = encode_samples(of_worker(10, in_flight=3))

    assert line.count(b"\n") == 1
    assert decode_samples(line) == of_worker(10, in_flight=3)


def test_what_another_version_counts_is_left_out() -> None:
    samples: Samples = {"tocsin_of_tomorrow": {(): 1}, **of_worker(1)}

    assert decode_samples(encode_samples(samples)) == of_worker(1)


@pytest.mark.parametrize(
    "line",
    [
        b"not JSON",
        b"\xff\xfe",
        b'{"tocsin_leases_lost_total":[[[null],1]]}',
        b'{"tocsin_leases_lost_total":[[["more"],1]]}',
        b'{"tocsin_leases_lost_total":[[[],[1,2]]]}',
        b'{"tocsin_provider_call_seconds":[[["fcm"],1]]}',
        b'{"tocsin_provider_call_seconds":[[["fcm"],[1,2]]]}',
    ],
)
def test_what_could_not_be_added_to_others_is_refused(line: bytes) -> None:
    with pytest.raises((ValueError, msgspec.DecodeError)):
        decode_samples(line + b"\n")
