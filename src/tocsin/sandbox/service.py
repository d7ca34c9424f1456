"""What a stand-in is: requests in, verdicts out, with faults and counts of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec

from tocsin.sandbox.answers import Answer
from tocsin.sandbox.faults.board import FaultBoard
from tocsin.sandbox.faults.rules import Cut, Hang
from tocsin.sandbox.fcm.oauth import TokenEndpoint
from tocsin.sandbox.phones import Phones
from tocsin.sandbox.settings import SandboxSettings
from tocsin.sandbox.tally import Tally


class Request(msgspec.Struct, frozen=True):
    """One HTTP request with its whole body; `header` looks a header up by its name in lower case."""

    method: str
    path: str
    query: str
    header: Callable[[str], str | None]
    body: bytes
    origin: str


class Broken(msgspec.Struct, frozen=True):
    """No whole answer comes; the caller sees the connection hang or break."""

    fault: Hang | Cut


Verdict = Answer | Broken


class Surroundings(msgspec.Struct, frozen=True):
    """What the stand-ins of one sandbox share."""

    settings: SandboxSettings
    folder: Path
    phones: Phones
    tokens: TokenEndpoint

    def board(self, codes: frozenset[str]) -> FaultBoard:
        """Make the fault board of one stand-in, which refuses with these codes."""
        return FaultBoard(codes=codes, seed=self.settings.seed, latency=self.settings.latency)


class StandIn(Protocol):
    """What stands in for one provider, with faults and counts of its own."""

    name: ClassVar[str]
    faults: FaultBoard
    tally: Tally


class Service(StandIn, Protocol):
    """A stand-in for one provider that is spoken to over HTTP."""

    def takes(self, method: str, path: str) -> bool:
        """Tell whether a request is for this stand-in."""
        ...

    def serve(self, request: Request) -> Verdict:
        """Judge a request and let its messages arrive, or not."""
        ...
