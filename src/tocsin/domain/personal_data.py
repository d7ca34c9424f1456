"""Finds what looks like personal data in a payload: locked screens show it, and other systems see it.

It is for warnings, so it keeps to forms that hardly anything else has: a number is that of a card only if it
has the prefix, the length and the check digit of one.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["card", "email", "iban", "national_id", "phone"]

LONGEST_TEXT = 10_000
MOST_VALUES = 2_000
LARGEST_NUMBER = 10**19
SHORTEST_IBAN = 15
_SHOWN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)

# Names of pictures look like addresses: logo@2x.png.
_EMAIL = re.compile(
    r"(?<![\w.%+-])[\w.%+-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,8}"
    r"(?!png|jpe?g|gif|svg|webp)[A-Za-z]{2,24}(?![\w-])",
    re.ASCII,
)
_PHONE = re.compile(r"(?<![\w+])\+[1-9](?:[ .()-]{0,2}[0-9]){7,14}(?!\w)", re.ASCII)
# What every number of a card or a person has; most texts have no such number.
_NUMBER = re.compile(r"[0-9][0-9 -]{9}[0-9]", re.ASCII)
_CARD = re.compile(r"(?<![\w.+-])(?<![0-9] )[2-6](?:[ -]?[0-9]){14,15}(?![\w-]| [0-9]|\.[0-9])", re.ASCII)
_CARD_NUMBER = re.compile(
    r"(?:3[47]|4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|6(?:011|4[4-9]|5)|35)[0-9]*", re.ASCII
)
_CARD_LENGTHS = {"34": 15, "37": 15}
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?!\w)", re.ASCII)
# The United States' social security numbers; no such number has these groups.
_SOCIAL_SECURITY = re.compile(
    r"(?<![\w-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w-])", re.ASCII
)


class Suspicion(NamedTuple):
    """A field of a payload and what it looks like; never its value."""

    field: str
    kind: Kind


def suspected_personal_data(payload: Mapping[str, Any]) -> list[Suspicion]:
    """List the fields of a payload that look like personal data, each once for each kind.

    It looks at so many values, and so much of each, that the work is bounded.
    """
    found: dict[Suspicion, None] = {}
    for field, value in _texts(payload):
        for kind in _kinds(value):
            found[Suspicion(field, kind)] = None
    return list(found)


def _texts(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List the texts of a payload with their paths; the items of a list share one."""
    left = deque[tuple[str, Any]]((_shown(key), value) for key, value in payload.items())
    for _ in range(MOST_VALUES):
        if not left:
            return
        path, value = left.popleft()
        match value:
            case str():
                yield path, value[:LONGEST_TEXT]
            case int() if not isinstance(value, bool):
                yield path, str(min(value, LARGEST_NUMBER))
            case Mapping():
                left.extend((f"{path}.{_shown(key)}", below) for key, below in value.items())
            case list():
                left.extend((f"{path}[]", below) for below in value[:MOST_VALUES])
            case _:
                pass


def _shown(key: object) -> str:
    """Return a key as it may be logged: one that is no plain name may be data itself."""
    return key if isinstance(key, str) and _SHOWN_KEY.fullmatch(key) else "*"


def _kinds(text: str) -> Iterator[Kind]:
    if "@" in text and _EMAIL.search(text):
        yield "email"
    if "+" in text and _PHONE.search(text):
        yield "phone"
    if _NUMBER.search(text):
        if any(_is_card(each[0]) for each in _CARD.finditer(text)):
            yield "card"
        if _SOCIAL_SECURITY.search(text):
            yield "national_id"
    if any(_is_iban(each[0]) for each in _IBAN.finditer(text)):
        yield "iban"


def _is_card(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    if not _CARD_NUMBER.fullmatch(digits) or len(digits) != _CARD_LENGTHS.get(digits[:2], 16):
        return False
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


def _is_iban(text: str) -> bool:
    code = text.replace(" ", "")
    moved = "".join(str(int(each, 36)) for each in code[4:] + code[:4])
    return len(code) >= SHORTEST_IBAN and int(moved) % 97 == 1
