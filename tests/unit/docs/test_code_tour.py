"""The tour of the code names functions that exist, and the path of a push stays short."""

import pytest

from tools.docs.pages.code import PATHS, SEND, Call, code_page, measure


def test_the_tour_covers_every_path() -> None:
    assert list(PATHS) == [
        "Accept an intent",
        "Send a push",
        "Post over HTTP/2",
        "Answer in the sandbox",
        "Relay an outbox row",
        "Publish an outbox row to an SNS topic",
        "Run a periodic producer",
        "Expand a broadcast",
        "Fail to call a webhook",
        "Send a digest",
    ]


def test_a_push_takes_few_steps_through_few_files() -> None:
    walk = measure(SEND)

    assert walk.steps <= 45
    assert walk.files <= 15
    assert walk.switches <= 25
    assert walk.most_entries <= 2


def test_a_function_that_does_not_exist_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = (Call("engine/dispatch/lane.py:Lane.fly", "does not exist"),)
    monkeypatch.setitem(PATHS, "Lost", ("Nothing.", lost))

    with pytest.raises(ValueError, match=r"lists engine/dispatch/lane.py:Lane.fly, which does not exist"):
        code_page()
