"""CSS of HTML mails."""

from css_inline import CSSInliner

# Media queries cannot be inlined, so they stay in the head. Nothing is fetched from the network or the
# file system.
_inliner = CSSInliner(keep_at_rules=True, load_remote_stylesheets=False)


def inline_css(html: str) -> str:
    """Inline the rules of `<style>` into each element, since many mail programs ignore `<style>`."""
    return _inliner.inline(html)
