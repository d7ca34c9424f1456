"""The SSRF guard of push endpoints: they are many, but of few origins, so each origin is checked once."""

import re
from functools import lru_cache

from tocsin.providers.http.resolver import system_lookup
from tocsin.providers.http.ssrf_guard import Guard, Lookup

MOST_ORIGINS = 1_024

# Every parser sees the same host in such a URL, and nothing after the slash can change it.
_PLAIN = re.compile(r"(https://[a-z0-9.-]+(?::[0-9]{1,5})?/)[!-~]*")


class EndpointGuard(Guard):
    """Remembers what is wrong with an origin, as far as can be seen without resolving its host."""

    def __init__(self, *, allow_private: bool = False, lookup: Lookup = system_lookup) -> None:
        super().__init__(allow_private=allow_private, lookup=lookup)
        self._fault_of_origin = lru_cache(maxsize=MOST_ORIGINS)(super().fault)

    @property
    def remembered(self) -> int:
        """How many origins are remembered."""
        return self._fault_of_origin.cache_info().currsize

    def fault(self, url: str) -> str | None:
        """Return what is wrong with a URL, as far as can be seen without resolving its host."""
        plain = _PLAIN.fullmatch(url)
        return self._fault_of_origin(plain[1]) if plain else super().fault(url)
