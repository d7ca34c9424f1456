"""CSS of HTML mails."""

import re
from collections import Counter

from css_inline import CSSInliner, InlineError

__all__ = ["HtmlUnfitError", "InlineError", "inline_css"]

LARGEST_HTML = 1_000_000
"""Characters of a mail before inlining."""
DEEPEST = 1_000
"""Elements within each other: the parser recurses, and some ten thousand overflow the stack."""
MOST_WORK = 1_000_000
"""Tags times rules: what takes the inliner half a second at most, while everybody else waits."""

# Media queries cannot be inlined, so they stay in the head. Nothing is fetched from the network or the
# file system.
_inliner = CSSInliner(keep_at_rules=True, load_remote_stylesheets=False)

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)")
# Elements that never contain others, or that the next one of their kind ends.
_NOT_NESTED = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
        "p",
        "li",
        "dt",
        "dd",
        "tr",
        "td",
        "th",
        "thead",
        "tbody",
        "tfoot",
        "option",
        "optgroup",
        "colgroup",
    ]
)


class HtmlUnfitError(InlineError):
    """HTML that the inliner cannot take without harm to the process or to other messages."""


def inline_css(html: str) -> str:
    """Inline the rules of `<style>` into each element, since many mail programs ignore `<style>`.

    Raises InlineError for CSS that cannot be parsed, HtmlUnfitError for HTML that is too large or too deep.
    """
    if fault := _fault(html):
        raise HtmlUnfitError(fault)
    try:
        return _inliner.inline(html)
    except BaseException as error:
        # A panic in Rust is no Exception, and would end the worker.
        if type(error).__name__ == "PanicException":
            raise HtmlUnfitError("the inliner failed") from None
        raise


def _fault(html: str) -> str | None:
    if len(html) > LARGEST_HTML:
        return f"the HTML has {len(html)} characters; at most {LARGEST_HTML} are inlined"
    tags = html.count("<")
    if tags * html.count("{") > MOST_WORK:
        return f"the HTML has {tags} tags and {html.count('{')} rules; use fewer of them"
    if tags > DEEPEST and _depth(html) > DEEPEST:
        return f"elements of the HTML are nested more than {DEEPEST} deep; is a closing tag missing?"
    return None


def _depth(html: str) -> int:
    """Return how deep elements are nested at most."""
    deepest = depth = 0
    within: Counter[str] = Counter()
    for closing, given in _TAG.findall(html):
        name = given.lower()
        if name in _NOT_NESTED:
            continue
        if not closing:
            within[name] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif within[name]:
            within[name] -= 1
            depth -= 1
    return deepest
