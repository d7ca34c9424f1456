"""Splitting a body that holds a list of items, without decoding the items.

The decoder refuses half of a surrogate pair and deep nesting even in JSON that it only skips, so that one
such item would fail all of a batch. This is slower than the decoder, and for bodies that it refuses. It gives
up where a body has too many tokens, so that one that is refused anyway costs little.
"""

import re
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tocsin.api.http.bodies import TOO_DEEP
from tocsin.engine.time_slice import TimeSlice
from tocsin.wire.problems import Problem

_State: TypeAlias = Literal[
    "value",
    "first element",
    "name",
    "first name",
    "colon",
    "value ended",
    "member ended",
    "element ended",
    "body ended",
]

MOST_TOKENS = 300_000
"""Enough for 1,000 intents of seventy fields; about a fifth of a second."""
MOST_OPEN = 4_000
"""The most braces and brackets that may be open; nothing valid comes near it."""

_TEXT, _SCALAR = b'"', b"0"
_SPACE = b" \t\n\r"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TOKEN = re.compile(
    rb"[ \t\n\r]*+(?:([\[\]{},:\"])|"
    rb"true|false|null|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
)
# Bounded, so that a long text is read in several steps.
_CHARACTERS = re.compile(rb'(?:[^"\\\x00-\x1f]{1,256}+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})){1,4096}')
_VALUES: dict[bytes, _State] = {
    b"{": "first name",
    b"[": "first element",
    _TEXT: "value ended",
    _SCALAR: "value ended",
}
_FOLLOWING: dict[_State, dict[bytes, _State]] = {
    "value": _VALUES,
    "first element": {**_VALUES, b"]": "value ended"},
    "name": {_TEXT: "colon"},
    "first name": {_TEXT: "colon", b"}": "value ended"},
    "colon": {b":": "value"},
    "member ended": {b",": "name", b"}": "value ended"},
    "element ended": {b",": "value", b"]": "value ended"},
    "body ended": {},
}
_ENDED: dict[int, _State] = {ord("{"): "member ended", ord("["): "element ended"}
_LIST = b"{["
"""The brackets that are open in a list which is a member of the outermost object."""


class SplitBody(NamedTuple):
    """A body in which every element of the lists of its object is 0, and the elements of its last list."""

    outline: bytes
    elements: list[msgspec.Raw]


class _Grammar:
    """Checks the order of the tokens of a JSON text, and that they are not too many."""

    def __init__(self) -> None:
        self._tokens = 0
        self.open = bytearray()
        self.value_ended = False
        self._state: _State = "value"

    @property
    def body_ended(self) -> bool:
        """Whether the text is complete."""
        return self._state == "body ended"

    def take(self, token: bytes) -> bool:
        """Take the next token; return whether it may stand here and is not one too many."""
        self._tokens += 1
        state = _FOLLOWING[self._state].get(token)
        if state is None or self._tokens > MOST_TOKENS or len(self.open) > MOST_OPEN:
            return False
        if token in {b"{", b"["}:
            self.open += token
        elif token in {b"}", b"]"}:
            del self.open[-1]
        self.value_ended = state == "value ended"
        if self.value_ended:
            state = _ENDED[self.open[-1]] if self.open else "body ended"
        self._state = state
        return True


def may_be_of_an_item(problem: Problem, body: bytes) -> bool:
    """Return whether a problem of a body may be that of one item: its depth, or half of a surrogate pair."""
    if not body.lstrip(_SPACE).startswith(b"{"):
        return False
    if problem.errors is None:
        return _SURROGATE.search(body) is not None
    return list(problem.errors) == [TOO_DEEP]


async def split_body(body: bytes, most: int) -> SplitBody | None:
    """Split a body, in time slices; return None if it is not JSON, or has too many tokens or open brackets.

    Elements beyond `most` are not kept.
    """
    outline, elements = bytearray(), list[msgspec.Raw]()
    grammar, slice_ = _Grammar(), TimeSlice()
    at = copied = start = 0
    while found := _TOKEN.match(body, at):
        if slice_.is_over:
            await slice_.pause()
        if grammar.open == _LIST and not grammar.value_ended:
            start = at
        token = found[1] or _SCALAR
        at = await _text_end(body, found.end(), slice_) if token == _TEXT else found.end()
        if not at or not grammar.take(token):
            return None
        if grammar.open != _LIST:
            continue
        if token == b"[":
            elements = []
        elif grammar.value_ended:
            outline += body[copied:start] + _SCALAR
            copied = at
            if len(elements) < most:
                elements.append(msgspec.Raw(body[start:at].strip(_SPACE)))
    if not grammar.body_ended or body[at:].strip(_SPACE):
        return None
    return SplitBody(bytes(outline + body[copied:]), elements)


async def _text_end(body: bytes, at: int, slice_: TimeSlice) -> int:
    """Return where a text ends whose characters begin at an index, or 0 if it does not."""
    while body[at : at + 1] != _TEXT:
        characters = _CHARACTERS.match(body, at)
        if characters is None:
            return 0
        at = characters.end()
        if slice_.is_over:
            await slice_.pause()
    return at + 1
