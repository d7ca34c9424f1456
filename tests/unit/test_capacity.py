"""The capacity model of the page "Beyond one machine" against a simulation."""

import math

import pytest

from bench.capacity.__main__ import LOAD, PAGE, rows
from bench.capacity.deployments import DEPLOYMENTS, Deployment
from bench.capacity.model import Station, predict
from bench.capacity.simulation import observe, simulate

RATE_TOLERANCE, TIME_TOLERANCE = 0.05, 0.20
MESSAGES = 60_000


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda each: each.title)
def test_model_and_simulation_agree(deployment: Deployment) -> None:
    predicted = predict(deployment.stations, LOAD)

    observed = observe(deployment.stations, predicted, LOAD, MESSAGES)

    assert observed.first == predicted.first
    assert observed.rate == pytest.approx(predicted.rate, rel=RATE_TOLERANCE)
    assert observed.p99 == pytest.approx(predicted.p99, rel=TIME_TOLERANCE)


def test_what_was_measured_is_worse_than_the_model_and_its_best_not_far_from_it() -> None:
    [(deployment, (rate, (low, _)))] = [(each, each.measured) for each in DEPLOYMENTS if each.measured]

    predicted = predict(deployment.stations, LOAD)

    assert 0.8 < rate / predicted.rate < 1
    assert 1 < low / predicted.p99 < 1.5


def test_one_queue_waits_as_the_formula_for_it_says() -> None:
    queue = Station("queue", 1, 0.001, varies=True)

    predicted = predict([queue], 0.7)

    # The time in an M/M/1 queue is exponential, with a mean of service time / (1 - load).
    assert predicted.p99 == pytest.approx(math.log(100) * 0.001 / 0.3, rel=0.1)
    assert simulate([queue], 700, 400_000).p99 == pytest.approx(math.log(100) * 0.001 / 0.3, rel=0.1)


def test_a_simulation_can_be_repeated() -> None:
    stations = DEPLOYMENTS[0].stations

    assert simulate(stations, 1_000, 2_000) == simulate(stations, 1_000, 2_000)
    assert simulate(stations, 1_000, 2_000) != simulate(stations, 1_000, 2_000, seed=2)


def test_the_page_has_the_model() -> None:
    page = PAGE.read_text()

    for deployment in DEPLOYMENTS:
        assert rows(deployment, predict(deployment.stations, LOAD), None).splitlines()[0] in page
