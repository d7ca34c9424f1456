"""SSRF guard: a webhook or push endpoint that somebody outside chose cannot reach a private network.

A host name is checked by the addresses it resolves to, and the connection must go to one of those checked:
a name may resolve to another address a moment later.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from pyreqwest.http import Url

from tocsin.providers.http.resolver import system_lookup

Lookup = Callable[[str], Awaitable[Sequence[str]]]

# The registries of special-purpose addresses (RFC 6890), without those that the whole Internet can reach.
_FORBIDDEN_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        # Azure answers its machines here, although the address is a public one.
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_FORBIDDEN_V6 = tuple(IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_NAT64 = IPv6Network("64:ff9b::/96")
LONGEST_HOST = 253
# The resolver takes underscores, which some hosts have in their names.
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.IGNORECASE)
_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa")


class HostRefusedError(Exception):
    """A host may not be called: it leads into a private network. Holds the reason."""


class HostUnknownError(Exception):
    """A host name resolves to no address at present."""


def is_forbidden(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is anything else than one of the public Internet."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in _FORBIDDEN_V4)
    inner = _v4_within(address)
    if inner is not None:
        return is_forbidden(inner)
    return address not in _GLOBAL_V6 or any(address in network for network in _FORBIDDEN_V6)


def is_host_name(host: str) -> bool:
    """Return whether a host is at most 253 bytes of valid labels; one beyond ASCII is in its IDNA form."""
    return len(host) <= LONGEST_HOST and all(map(_LABEL.fullmatch, host.split(".")))


class Guard:
    """Checks URLs and hosts from outside; `allow_private` allows private addresses, as for a sandbox."""

    def __init__(self, *, allow_private: bool = False, lookup: Lookup = system_lookup) -> None:
        self._allow_private = allow_private
        self._lookup = lookup

    def fault(self, url: str) -> str | None:
        """Return what is wrong with a URL, as far as can be seen without resolving its host."""
        try:
            # Read by the parser that the HTTP client uses: two parsers may see two hosts in one text.
            parsed = Url(url)
        except ValueError:
            return "is not a URL"
        if parsed.scheme != "https":
            return "does not begin with https://"
        if parsed.username or parsed.password:
            return "carries a user name or password"
        host = parsed.host_str
        if not host:
            return "names no host"
        return self._host_fault(host)

    async def addresses(self, host: str) -> Sequence[str]:
        """Resolve a host to its addresses; raise HostRefusedError unless all of them are allowed."""
        if fault := self._host_fault(host):
            raise HostRefusedError(fault)
        literal = _literal(host)
        if literal is not None:
            return [str(literal)]
        try:
            found = await self._lookup(host)
        except (OSError, UnicodeError) as error:
            raise HostUnknownError("the host's name resolves to no address") from error
        addresses = list(dict.fromkeys(map(_address, found)))
        if not addresses:
            raise HostUnknownError("the host's name resolves to no address")
        if not self._allow_private and any(map(is_forbidden, addresses)):
            raise HostRefusedError("resolves to a private or reserved address")
        return list(map(str, addresses))

    def _host_fault(self, host: str) -> str | None:
        if host.endswith("."):
            return "names a host with a dot at its end"
        literal = _literal(host)
        if literal is None and not is_host_name(host):
            return "names a host that no DNS name can be"
        if self._allow_private:
            return None
        if literal is not None:
            return "names a private or reserved address" if is_forbidden(literal) else None
        if "." not in host or any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES):
            return "names a host of a local network"
        return None


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _address(text: str) -> IPv4Address | IPv6Address:
    # The resolver names the interface of a link-local address after a percent sign.
    return ip_address(text.partition("%")[0])


def _v4_within(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that a mapped, 6to4 or NAT64 address leads to."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour
