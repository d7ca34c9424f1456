"""The HTML of a mail as mail programs want it."""

from css_inline import CSSInliner

# Media queries cannot be written into an element, so they stay in the head. Nothing is fetched: neither
# from the network nor from this machine's files.
_inliner = CSSInliner(keep_at_rules=True, load_remote_stylesheets=False)


def inline_css(html: str) -> str:
    """Write the rules of `<style>` into each element: many mail programs read them nowhere else."""
    return _inliner.inline(html)
