"""The reference of error codes: their source and what to do about them."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from tocsin.domain.delivery.hints import HINTS, SMTP_HINTS, advice
from tocsin.providers.registry import BUILT_IN
from tools.docs.markdown import NONE, code, codes, page, table


def _codes(provider: str) -> frozenset[str]:
    """Read the codes of a provider's table; mail servers have rows of another form."""
    answers = import_module(f"tocsin.providers.{provider}.answers")
    return frozenset(rule.code for rule in getattr(answers, "RULES", ()))


TABLES: Mapping[str, frozenset[str]] = {
    f"[{entry.title}]({entry.name}.md)": _codes(entry.name) for entry in BUILT_IN
}
INTRO = (
    "`last_error_code` of a delivery and `code` of an attempt hold these; `hint`, in `tocsin show` and over "
    "HTTP, holds the advice. Codes in capitals or CamelCase are the provider's own words, the others are "
    "Tocsin's. What each one leads to stands on the page of its provider."
)
STATUS = (
    "`HTTP_502`, or `http_502` of Web Push, is a status that is in no table. From 500 on it is tried again "
    "by itself; for others, check proxies on the way and the provider's `base_url`."
)
MAIL = (
    "The code of a mail server's answer is its reply code, with the enhanced status code behind it if there "
    "is one: `550 5.1.1`. The row that fits most exactly counts; `5.7.x` stands for every code that begins "
    "so. [Mail servers' answers](smtp.md) has what each one leads to."
)


def errors_page() -> str:
    """Build the page."""
    if strange := set().union(*TABLES.values()) - HINTS.keys():
        raise ValueError(f"no hint about {sorted(strange)}")
    return page(
        "Error codes",
        INTRO,
        table(["code", "in answers of", "what to do"], _rows()),
        STATUS,
        "## Mail servers",
        MAIL,
        table(["code", "what to do"], _mail_rows()),
    )


def _rows() -> Iterator[list[str]]:
    """Build a row for each hint, in the order of the table."""
    for text, names in _by_advice(HINTS).items():
        givers = [giver for giver, known in TABLES.items() if known & set(names)]
        yield [codes(names), ", ".join(givers) or NONE, text]


def _mail_rows() -> Iterator[list[str]]:
    for text, names in _by_advice(SMTP_HINTS).items():
        yield [", ".join(map(_shown, names)), text]


def _shown(name: str) -> str:
    """Format a mail server's code, with an x for digits that do not matter."""
    if len(name) == 1:
        return f"any other {code(f'{name}xx')}"
    return code(f"{name}.x" if name.rpartition(" ")[2].count(".") == 1 else name)


def _by_advice(hints: Mapping[str, str]) -> dict[str, list[str]]:
    gathered: dict[str, list[str]] = {}
    for name, text in hints.items():
        gathered.setdefault(advice(text), []).append(name)
    return gathered
