"""The lanes of a channel together: how much to claim, so that no provider holds up another."""

from collections.abc import Iterator, Mapping

from tocsin.engine.clock import Clock
from tocsin.engine.dispatch.lane import CLAIM_SHARE, Lane
from tocsin.engine.health.circuit_breakers import Circuits

MOST_CLAIMED = 1_000
SMALLEST_SHARE = 0.02
_WEIGHT = 0.2


class Lanes:
    """Learns which share of what falls due goes to which provider.

    Which provider a push goes to shows only when it is claimed. So a claim takes as much as the lane
    that fills up first can use by its usual share. Lanes that are stuck, or whose circuit is open, do not
    count: what comes for them is set aside, out of the way of the others.
    """

    def __init__(self, lanes: Mapping[str, Lane], circuits: Circuits, clock: Clock) -> None:
        self._lanes = lanes
        self._circuits = circuits
        self._clock = clock
        self._shares = dict.fromkeys(lanes, 0.0)

    def __getitem__(self, provider: str) -> Lane:
        return self._lanes[provider]

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    @property
    def resting(self) -> bool:
        """Tell whether no provider can be used now."""
        return not any(self._circuits.passes(name) for name in self._lanes)

    def learn(self, counts: Mapping[str, int]) -> None:
        """Take in how many of the last claim went to each provider."""
        total = sum(counts.values())
        if total:
            for name, share in self._shares.items():
                self._shares[name] = share + _WEIGHT * (counts.get(name, 0) / total - share)

    def claimable(self) -> int:
        """Tell how many deliveries to claim now; none if it is better to wait."""
        closed = [lane for lane in self._lanes.values() if self._circuits.passes(lane.provider.name)]
        if not closed:
            return self._probes()
        usable = [lane for lane in closed if not lane.stuck] or closed
        counting = [lane for lane in usable if self._shares[lane.provider.name] >= SMALLEST_SHARE]
        if not counting:
            free, room = sum(lane.free for lane in usable), sum(lane.room for lane in usable)
        else:
            whole = sum(self._shares.values())
            shares = {lane: self._shares[lane.provider.name] / whole for lane in counting}
            free = min(int(lane.free / share) for lane, share in shares.items())
            room = min(int(lane.room / share) for lane, share in shares.items())
        return min(free, MOST_CLAIMED) if free >= max(1, min(room, MOST_CLAIMED) // CLAIM_SHARE) else 0

    def idle(self) -> list[Lane]:
        """List the lanes that could send while another is busy; none unless one is."""
        usable = [lane for lane in self._lanes.values() if self._circuits.passes(lane.provider.name)]
        idle = [lane for lane in usable if lane.free * 2 >= lane.room]
        return idle if len(idle) < len(usable) else []

    def _probes(self) -> int:
        """Claim one for each circuit that may be tried, while nothing else can be sent."""
        now = self._clock()
        rests = [self._circuits.rests_until(name) for name in self._lanes]
        return sum(rest is not None and rest <= now for rest in rests)
