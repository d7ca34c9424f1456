"""What holds a waiting delivery that has no due time of its own."""

from typing import TypeAlias, assert_never

import msgspec

from tocsin.domain.faults import Fault
from tocsin.domain.toggles import Toggle, read_toggle

ORDER = "order"
DIGEST = "digest"
_HOST = "host:"
UNKNOWN_TYPE = "type_unknown:"


class HeldByToggle(msgspec.Struct, frozen=True):
    """Held until a type or channel is switched on."""

    toggle: Toggle


class HeldByOrder(msgspec.Struct, frozen=True):
    """Held until an earlier delivery of its ordering group is settled."""


class HeldByDigest(msgspec.Struct, frozen=True):
    """Member of a digest: it ends with the digest."""


class HeldByHost(msgspec.Struct, frozen=True):
    """Held while the circuit breaker of one host is open; `circuit` is `<provider>/<host>`."""

    circuit: str


class HeldByUnknownType(msgspec.Struct, frozen=True):
    """Held until some worker's catalog has this version of its type."""

    type: str
    version: int


HeldBy: TypeAlias = HeldByToggle | HeldByOrder | HeldByDigest | HeldByHost | HeldByUnknownType


def stored_held_by(held_by: HeldBy) -> str:
    """Return the text that is stored and shown for what holds a delivery."""
    match held_by:
        case HeldByToggle(toggle=toggle):
            return str(toggle)
        case HeldByOrder():
            return ORDER
        case HeldByDigest():
            return DIGEST
        case HeldByHost(circuit=circuit):
            return f"{_HOST}{circuit}"
        case HeldByUnknownType(type=type_name, version=version):
            return f"{UNKNOWN_TYPE}{type_name}@{version}"
        case _:
            assert_never(held_by)


def parse_held_by(text: str) -> HeldBy | None:
    """Parse the stored text; None where it names nothing that can hold a delivery."""
    if text == ORDER:
        return HeldByOrder()
    if text == DIGEST:
        return HeldByDigest()
    if text.startswith(_HOST):
        return HeldByHost(text.removeprefix(_HOST))
    if text.startswith(UNKNOWN_TYPE):
        type_name, _, version = text.removeprefix(UNKNOWN_TYPE).rpartition("@")
        return HeldByUnknownType(type_name, int(version)) if version.isdecimal() else None
    toggle = read_toggle(text)
    return None if isinstance(toggle, Fault) else HeldByToggle(toggle)
