"""Keeps pages of other origins from steering the sandbox through a visitor's browser.

The control API has no login. Programs send neither `Origin` nor `Sec-Fetch-Site` and are let through;
a browser sends at least one of them with every write, and no page can make it leave them out.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

_READS = frozenset({"GET", "HEAD"})
_OWN_SITES = frozenset({"same-origin", "none"})


def is_foreign_write(
    method: str, *, own_origin: str, listens_at: str, origin: str | None, site: str | None
) -> bool:
    """Tell whether a browser sends this on behalf of a page that is not the sandbox's own."""
    if method in _READS:
        return False
    if site is not None and site not in _OWN_SITES:
        return True
    if origin is None:
        return False
    return origin != own_origin or _is_rebound(origin, listens_at)


def _is_rebound(origin: str, listens_at: str) -> bool:
    """Tell whether somebody's name was made to point at this machine, so that their page seems ours."""
    name = urlsplit(origin).hostname or ""
    if name == "localhost" or name.endswith(".localhost") or _is_address(name):
        return False
    address = listens_at.rpartition(":")[0].strip("[]")
    return _is_address(address) and ip_address(address).is_loopback


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
