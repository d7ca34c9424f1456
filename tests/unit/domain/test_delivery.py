import pytest

from tocsin.domain.delivery.states import CLAIMED, DEAD_LETTERS, MEANING, TRANSITIONS, WAITING, State

FINAL = {State.DELIVERED, State.SKIPPED, State.CANCELLED, State.EXPIRED}


def test_every_state_has_a_meaning_and_its_ways_out() -> None:
    assert set(MEANING) == set(State)
    assert set(TRANSITIONS) == set(State)
    assert all(MEANING.values())


@pytest.mark.parametrize("state", sorted(FINAL))
def test_what_is_final_stays(state: State) -> None:
    assert TRANSITIONS[state] == frozenset()


@pytest.mark.parametrize("state", sorted(WAITING))
def test_what_waits_can_be_taken_back_or_expire(state: State) -> None:
    assert State.CANCELLED in TRANSITIONS[state]
    assert State.EXPIRED in TRANSITIONS[state]


@pytest.mark.parametrize("state", sorted(CLAIMED))
def test_what_is_claimed_can_be_sent(state: State) -> None:
    assert State.SENT in TRANSITIONS[state]


def test_nothing_is_sent_that_was_not_claimed() -> None:
    assert {state for state in State if State.SENT in TRANSITIONS[state]} == CLAIMED


def test_only_failures_can_be_replayed() -> None:
    replayed = {state for state in State if State.PENDING in TRANSITIONS[state]} - {State.SCHEDULED}

    assert replayed == DEAD_LETTERS == {State.REJECTED, State.GONE, State.DEAD}


def test_every_state_can_be_reached() -> None:
    first = {State.SCHEDULED, State.PENDING, State.SKIPPED}
    reached = first | {target for targets in TRANSITIONS.values() for target in targets}

    assert reached == set(State)
