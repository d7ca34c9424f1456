"""CSS of HTML mails."""

from css_inline import CSSInliner, InlineError

__all__ = ["InlineError", "inline_css"]

# Media queries cannot be inlined, so they stay in the head. Nothing is fetched from the network or the
# file system.
_inliner = CSSInliner(keep_at_rules=True, load_remote_stylesheets=False)


def inline_css(html: str) -> str:
    """Inline the rules of `<style>` into each element, since many mail programs ignore `<style>`.

    Raises InlineError for CSS that cannot be parsed.
    """
    return _inliner.inline(html)
