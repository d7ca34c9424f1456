"""When to try again, without a network and without a clock."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.client.calls import split
from tocsin.client.errors import UnavailableError
from tocsin.client.exchange import (
    ApiReply,
    Attempts,
    Call,
    CallOptions,
    Flow,
    NoReply,
    RetryPolicy,
    Secret,
    attempts,
    is_retryable,
    retry_delay,
)

BACKOFF = RetryPolicy().backoff
outcomes = st.one_of(
    st.just(NoReply("gone")),
    st.builds(
        ApiReply,
        status=st.sampled_from([429, 500, 502, 503, 504]),
        body=st.just(b""),
        retry_after=st.sampled_from([None, "0", "2", "7200", "soon", "Fri, 31 Dec 1999 23:59:59 GMT"]),
    ),
)


def _one_call() -> Flow[int]:
    reply = yield Call("GET", "/")
    return reply.status


class Hours:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    st.lists(st.tuples(outcomes, st.floats(0, 20)), min_size=40, max_size=40),
    st.floats(0, 0.999),
    st.integers(0, 10),
    st.floats(0.1, 60),
)
def test_it_ends_within_its_deadline_and_its_retries(
    story: list[tuple[ApiReply | NoReply, float]], chance: float, retries: int, deadline: float
) -> None:
    clock = Hours()
    policy = RetryPolicy(timeout=20, deadline=deadline, retries=retries)
    under_way = attempts(_one_call(), CallOptions(Secret("key"), policy, clock, lambda: chance))

    with pytest.raises(UnavailableError) as gave_up:
        _live_through(under_way, story, clock)

    assert gave_up.value.attempts <= retries + 1
    assert clock.now <= deadline + 0.1


def _live_through(
    under_way: Attempts[int], story: list[tuple[ApiReply | NoReply, float]], clock: Hours
) -> None:
    request = next(under_way)
    for outcome, takes in story:
        clock.now += request.after + min(takes, request.timeout)
        request = under_way.send(outcome)


@given(st.integers(1, 30), st.floats(0, 0.999))
def test_waits_grow_and_are_spread(attempt: int, chance: float) -> None:
    wait = retry_delay(NoReply("gone"), attempt, BACKOFF, chance)

    assert 0.05 <= wait <= 7.5
    assert wait <= retry_delay(NoReply("gone"), attempt + 1, BACKOFF, chance)


def test_an_asked_wait_is_a_lower_bound() -> None:
    assert retry_delay(ApiReply(503, b"", "4"), 1, BACKOFF, 0.5) == 4
    assert retry_delay(ApiReply(503, b"", "0"), 1, BACKOFF, 0.5) == pytest.approx(0.1)


@pytest.mark.parametrize("status", [200, 202, 301, 400, 401, 403, 404, 405, 409, 413, 422, 501])
def test_an_answer_that_stands_is_not_asked_for_again(status: int) -> None:
    assert not is_retryable(ApiReply(status, b""))


@given(st.lists(st.integers(1, 3_000), max_size=60), st.integers(1, 10), st.integers(1_000, 8_000))
def test_runs_hold_everything_once_in_order_and_no_more_than_allowed(
    sizes: list[int], most: int, most_bytes: int
) -> None:
    runs = split(sizes, most, most_bytes)

    assert [at for start, end in runs for at in range(start, end)] == list(range(len(sizes)))
    for start, end in runs:
        assert 1 <= end - start <= most
        assert sum(sizes[start:end]) <= most_bytes or end - start == 1
    for (start, end), (_, following) in pairwise(runs):
        assert following > end
        assert end - start == most or sum(sizes[start : end + 1]) > most_bytes
