"""Splitting the body of a batch that the decoder refuses."""

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.api.http import batches
from tocsin.api.http.batches import MOST_OPEN, MOST_TOKENS, split_body

MOST = 1_000
INNERMOST = MOST_OPEN - 2
"""How deep an element of a list of the body may be nested."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def split(body: bytes) -> tuple[bytes, list[bytes]] | None:
    found = asyncio.run(split_body(body, MOST))
    return None if found is None else (found.outline, [bytes(element) for element in found.elements])


@given(
    before=st.dictionaries(st.text(), VALUES, max_size=2),
    items=st.lists(VALUES, max_size=4),
    indent=st.sampled_from([None, 1]),
)
def test_the_elements_of_the_last_list_are_found(
    before: dict[str, Any], items: list[Any], indent: int | None
) -> None:
    names = [*before, "items"]
    # Written member by member: a name may be repeated.
    members = zip(names, [*before.values(), items], strict=True)
    written = ",".join(f"{json.dumps(name)} : {json.dumps(value, indent=indent)}" for name, value in members)

    found = split(f" {{ {written} }}\n".encode())

    assert found is not None
    outline, elements = found
    assert [json.loads(element) for element in elements] == items
    whole = json.loads(outline)
    assert list(whole) == list(dict.fromkeys(names))
    assert whole["items"] == [0] * len(items)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"}",
        b"]",
        b"{]",
        b"{} {}",
        b'{"a":[1,]}',
        b'{"a":[,1]}',
        b'{"a":[1 2]}',
        b'{"a":[1}',
        b'{"a":[1]]',
        b'{"a":[1]}}',
        b'{"a":[1]',
        b'{"a":[1]}x',
        b'{"a" [1]}',
        b'{"a":,"b":1}',
        b'{"a"}',
        b'{"a":1,}',
        b"{,}",
        b"{1:2}",
        b'{"a":["b]}',
        b'{"a":["\\x"]}',
        b'{"a":["\\u12"]}',
        b'{"a":["\n"]}',
        b'{"a":[01]}',
        b'{"a":[1.]}',
        b'{"a":[.5]}',
        b'{"a":[-]}',
        b'{"a":[+1]}',
        b'{"a":[1e]}',
        b'{"a":[tru]}',
        b'{"a":[NaN]}',
        b'{"a":[truefalse]}',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":["' + b"x" * 2_000_000 + b"]}",
    ],
)
def test_what_is_no_json_is_not_split(body: bytes) -> None:
    assert split(body) is None


@pytest.mark.parametrize(
    "element",
    [
        b'"\\ud800"',
        b"[" * INNERMOST + b"]" * INNERMOST,
        b'{"a":' * INNERMOST + b"1" + b"}" * INNERMOST,
        b'"' + b"x" * 2_000_000 + b'"',
        b'"' + b"\\n" * 100_000 + b'"',
        b"1" * 100_000,
        b'"\xff"',
    ],
    ids=["half a pair", "lists", "objects", "long text", "escapes", "number", "no text"],
)
def test_an_element_is_split_off_whatever_it_holds(element: bytes) -> None:
    assert split(b'{"a":[1,%b ,"b"]}' % element) == (b'{"a":[0,0 ,0]}', [b"1", element, b'"b"'])


def test_elements_beyond_the_most_are_not_kept() -> None:
    found = split(b'{"a":[' + b"11," * 5_000 + b"11]}")

    assert found == (b'{"a":[' + b"0," * 5_000 + b"0]}", [b"11"] * MOST)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b"1," * 2_000_000 + b'"\\ud800"]}',
        b'{"a":[[' + b'"",' * 1_000_000 + b'"\\ud800"]]}',
        b'{"a":' + b"[" * 4_000_000,
        b'{"a":' * 800_000,
    ],
    ids=["scalars", "texts", "lists", "objects"],
)
def test_a_body_of_very_many_tokens_is_given_up_early(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    steps = 0

    class Counting(batches._Grammar):
        def take(self, token: bytes) -> bool:
            nonlocal steps
            steps += 1
            return super().take(token)

    monkeypatch.setattr(batches, "_Grammar", Counting)

    assert split(body) is None
    assert steps <= 1 + (MOST_TOKENS if b"," in body else 3 * (MOST_OPEN + 1))


def test_a_thousand_large_items_with_a_faulty_one_are_split() -> None:
    fields = {f"field_{number}": f"value {number}" for number in range(50)}
    item = {"type": "order_shipped", "audience": {"users": ["42"]}, "payload": fields, "idempotency_key": "k"}
    items = [json.dumps(item).encode()] * (MOST - 1) + [b'"\\ud800"']

    found = split(b'{"notifications": [%b]}' % b", ".join(items))

    assert found is not None
    assert found[1] == items


@pytest.mark.parametrize(
    "element", [b"[[]]," * 50_000 + b"1", b'"' + b"\\n" * 5_000_000 + b'"'], ids=["lists", "escapes"]
)
async def test_others_are_served_while_a_body_is_split(element: bytes) -> None:
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    assert await split_body(b'{"a":[%b]}' % element, MOST) is not None
    ticking.cancel()

    assert len(gaps) > 2
    assert max(gaps) < 0.1
