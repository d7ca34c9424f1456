"""TCP connections to the first address of a host that answers (RFC 8305), as uvloop has none."""

import asyncio
import socket
from collections import deque
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import NamedTuple

NEXT_ADDRESS_SECONDS = 0.25


class Address(NamedTuple):
    """One address of a host, as a socket wants it."""

    family: int
    place: tuple[str | int | bytes, ...]


async def open_socket(host: str, port: int) -> socket.socket:
    """Resolve a host and connect to it; raise OSError if no address answers."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return await connect_first(in_turns(Address(family, place) for family, _, _, _, place in found))


def in_turns(addresses: Iterable[Address]) -> list[Address]:
    """Order addresses so that the families take turns, beginning with the one that the resolver prefers."""
    families: dict[int, list[Address]] = {}
    for address in addresses:
        families.setdefault(address.family, []).append(address)
    return [address for address in chain.from_iterable(zip_longest(*families.values())) if address]


async def connect_first(addresses: Iterable[Address]) -> socket.socket:
    """Connect to each address a moment after the one before it, and keep the first connection."""
    waiting = deque(addresses)
    attempts: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException = OSError("the host has no address")
    connected: list[socket.socket] = []
    try:
        while (waiting or attempts) and not connected:
            if waiting:
                attempts.add(asyncio.create_task(_connect(waiting.popleft())))
            seconds = NEXT_ADDRESS_SECONDS if waiting else None
            done, attempts = await asyncio.wait(
                attempts, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                if (error := attempt.exception()) is None:
                    connected.append(attempt.result())
                else:
                    failure = error
    finally:
        for attempt in attempts:
            if not attempt.cancel() and not attempt.cancelled() and attempt.exception() is None:
                attempt.result().close()
    if not connected:
        raise failure
    for other in connected[1:]:
        other.close()
    return connected[0]


async def _connect(address: Address) -> socket.socket:
    # asyncio sends small writes at once only for sockets that say they are TCP.
    opened = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, address.place)
    except BaseException:
        opened.close()
        raise
    return opened
