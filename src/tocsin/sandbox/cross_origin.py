"""CSRF guard: pages of other origins cannot change the sandbox through a visitor's browser.

The control API has no login. Programs send neither `Origin` nor `Sec-Fetch-Site` and are let through;
a browser sends at least one of them with every write, and no page can make it leave them out.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from tocsin.sandbox.stand_in import ReceivedRequest

_READS = frozenset({"GET", "HEAD"})
_OWN_SITES = frozenset({"same-origin", "none"})


def is_cross_origin_write(request: ReceivedRequest) -> bool:
    """Return whether a browser sends a write on behalf of another origin than the sandbox's page."""
    if request.method in _READS:
        return False
    site, origin = request.header("sec-fetch-site"), request.header("origin")
    if site is not None and site not in _OWN_SITES:
        return True
    if origin is None:
        return False
    return origin != request.origin or _is_dns_rebinding(origin, request.server)


def _is_dns_rebinding(origin: str, server: str) -> bool:
    """Return whether a foreign domain name was made to resolve to this machine's loopback address."""
    name = urlsplit(origin).hostname or ""
    if name == "localhost" or name.endswith(".localhost") or _is_address(name):
        return False
    address = server.rpartition(":")[0].strip("[]")
    return _is_address(address) and ip_address(address).is_loopback


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
