"""Hosts that somebody outside chose, each pinned to an address that the SSRF guard allowed."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from tocsin.providers.http.ssrf_guard import Guard, HostUnknownError

ADDRESS_SECONDS = 60.0
MOST_HOSTS = 256


class Connected(Protocol):
    """What sends to one address."""

    def leave(self) -> None:
        """Close once nothing is under way: nothing more will be sent by it."""

    async def aclose(self) -> None:
        """Close every connection."""


C = TypeVar("C", bound=Connected)


class _Pinned(Generic[C]):
    """The connections to one host, all to one of its addresses."""

    def __init__(self, connected: C, address: str) -> None:
        self.connected = connected
        self.address = address
        self.fresh_until = 0.0
        self.failed = False


class PinnedHosts(Generic[C]):
    """Keeps separate connections for each host and drops the least recently used.

    No HTTP client resolves a name by itself: `connect` gets the one address to connect to, so a name that is
    rebound after the check cannot lead into a private network (SSRF by DNS rebinding).
    """

    def __init__(
        self, guard: Guard, connect_timeout: float, connect: Callable[[str, str], Awaitable[C]]
    ) -> None:
        self._guard = guard
        self._connect_timeout = connect_timeout
        self._connect = connect
        self._hosts: OrderedDict[str, _Pinned[C]] = OrderedDict()
        # A name is resolved once for all who wait for it, and all of them wait no longer than one deadline.
        self._pinning: dict[str, asyncio.Task[_Pinned[C]]] = {}

    def fresh(self, name: str) -> C | None:
        """Return the connections of a host, unless its address has to be looked up."""
        pinned = self._hosts.get(name)
        if pinned is None or pinned.failed or time.monotonic() >= pinned.fresh_until:
            return None
        self._hosts.move_to_end(name)
        return pinned.connected

    async def get(self, name: str, host: str) -> C:
        """Return the connections to a host, which are kept by a name.

        Raises HostRefusedError for what may not be called, HostUnknownError for a host without an address
        and TimeoutError when the resolver takes too long.
        """
        connected = self.fresh(name)
        if connected is not None:
            return connected
        pinning = self._pinning.get(name)
        if pinning is None:
            pinning = self._pinning[name] = asyncio.create_task(self._pin(name, host))
            pinning.add_done_callback(lambda done: self._pinned(name, done))
        return (await asyncio.shield(pinning)).connected

    def connection_failed(self, name: str) -> None:
        """Record that no connection came about: another address of the host is tried next."""
        pinned = self._hosts.get(name)
        if pinned:
            pinned.failed = True

    async def aclose(self) -> None:
        """Close every connection."""
        for pinning in list(self._pinning.values()):
            pinning.cancel()
        for pinned in self._hosts.values():
            await pinned.connected.aclose()
        self._hosts.clear()

    def _pinned(self, name: str, done: "asyncio.Task[_Pinned[C]]") -> None:
        del self._pinning[name]
        if not done.cancelled():
            # Retrieved, although everybody who waited for it may have given up.
            done.exception()

    async def _pin(self, name: str, host: str) -> _Pinned[C]:
        present = self._hosts.get(name)
        try:
            async with asyncio.timeout(self._connect_timeout):
                addresses = await self._guard.addresses(host)
        except (HostUnknownError, TimeoutError):
            # The address in use was allowed; a resolver that fails is no reason to leave it.
            if present is None or present.failed:
                raise
            addresses = [present.address]
        # Meanwhile it may have been dropped for others, and closes.
        present = self._hosts.get(name)
        if present and present.address in addresses and not (present.failed and len(addresses) > 1):
            pinned = present
        else:
            address = _after(present.address if present else "", addresses)
            pinned = _Pinned(await self._connect(name, address), address)
            if (replaced := self._hosts.get(name)) is not None:
                replaced.connected.leave()
        pinned.failed = False
        pinned.fresh_until = time.monotonic() + ADDRESS_SECONDS
        self._hosts[name] = pinned
        self._hosts.move_to_end(name)
        while len(self._hosts) > MOST_HOSTS:
            _, dropped = self._hosts.popitem(last=False)
            dropped.connected.leave()
        return pinned


def _after(last: str, addresses: Sequence[str]) -> str:
    """Return the address that follows the last one that was tried, so that all of them get their turn."""
    turn = addresses.index(last) + 1 if last in addresses else 0
    return addresses[turn % len(addresses)]
