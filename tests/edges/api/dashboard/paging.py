"""Reading every page of a list, as somebody does who follows the links to older entries."""

import html
import re
from collections.abc import AsyncIterator

from tests.edges.api.dashboard.visits import Visit

_NEXT = re.compile(r'rel="next" href="(\?[^"]+)"')


async def every_page(visit: Visit, path: str, query: str) -> AsyncIterator[str]:
    """Yield a page and those that follow it."""
    while query:
        answer = await visit.get(path + query)
        assert answer.status_code == 200, answer.text
        yield answer.text
        further = _NEXT.search(answer.text)
        query = html.unescape(further[1]) if further else ""
