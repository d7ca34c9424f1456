"""Guard against CSRF and DNS rebinding: pages of others do not control the sandbox by a visitor's browser.

The control API has no login. Programs send neither `Origin` nor `Sec-Fetch-Site` and are let through;
a browser sends at least one of them with every write, and no page can make it leave them out. It sends
neither with reads of a page whose domain name was made to resolve to this machine, but the name as `Host`.
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
    return origin != request.origin


def is_dns_rebinding(request: ReceivedRequest) -> bool:
    """Return whether a foreign domain name was made to resolve to this machine's loopback address."""
    name = urlsplit(request.origin).hostname
    # Browsers always send a name.
    if not name or name == "localhost" or name.endswith(".localhost") or _is_address(name):
        return False
    address = request.server.rpartition(":")[0].strip("[]")
    return _is_address(address) and ip_address(address).is_loopback


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
