"""The state machine, drawn from the table of transitions."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from tocsin.domain.delivery.states import CLAIMED, TRANSITIONS, WAITING, State
from tools.docs.pictures.svg import Box, Drawing, across, bend

WIDTH, HEIGHT = 116, 36
KINDS: Mapping[State, str] = {
    State.SENT: "good",
    State.DELIVERED: "good",
    State.REJECTED: "bad",
    State.GONE: "bad",
    State.DEAD: "bad",
    State.SKIPPED: "quiet",
    State.CANCELLED: "quiet",
    State.EXPIRED: "quiet",
}
PLACES: Mapping[State, tuple[float, float]] = {
    State.SCHEDULED: (40, 374),
    State.PENDING: (40, 132),
    State.RETRYING: (230, 220),
    State.SENT: (570, 32),
    State.GONE: (570, 88),
    State.REJECTED: (570, 144),
    State.DEAD: (570, 200),
    State.SKIPPED: (570, 262),
    State.CANCELLED: (570, 318),
    State.EXPIRED: (570, 374),
    State.DELIVERED: (806, 32),
}
BOXES = {state: Box(*place, WIDTH, HEIGHT) for state, place in PLACES.items()}
JUNCTION = 430.0, 150.0

Edge = tuple[State, State]


def states_picture() -> str:
    """Draw every state and every transition."""
    drawing = Drawing(
        950,
        440,
        "The states of a delivery",
        "Which state may follow which, as the tables of the code have it.",
    )
    for state, box in BOXES.items():
        drawing.box(box, "waits" if state in WAITING else KINDS[state], state, mono=True)
    drawn = (
        _through_the_lease(drawing) | _between_waiting(drawing) | _from_scheduled(drawing) | _after(drawing)
    )
    every = {(state, follower) for state, followers in TRANSITIONS.items() for follower in followers}
    if drawn != every:
        raise ValueError(f"the picture of the states does not show the table: {sorted(drawn ^ every)}")
    return drawing.written()


def _through_the_lease(drawing: Drawing) -> set[Edge]:
    """Draw what a claimed delivery may become: the same for every state that can be claimed."""
    x, y = JUNCTION
    drawing.dot(x, y)
    drawing.text(x, y - 76, "claimed, tried,")
    drawing.text(x, y - 60, "settled under its lease")
    for state in _in_order(CLAIMED):
        drawing.arrow(bend(BOXES[state].right, BOXES[state].middle[1], x - 5, y), head=False)
    shared = frozenset.intersection(*(TRANSITIONS[state] for state in CLAIMED))
    for follower in _in_order(shared - CLAIMED):
        target = BOXES[follower]
        drawing.arrow(bend(x + 5, y, target.x, target.middle[1]))
    again = BOXES[State.RETRYING]
    drawing.arrow(
        f"M{x:g} {y + 5:g}C{x:g} {again.bottom + 50:g} {again.middle[0]:g} {again.bottom + 60:g} "
        f"{again.middle[0]:g} {again.bottom:g}"
    )
    drawing.text(again.middle[0] + 34, again.bottom + 51, "failed: tried again")
    return {(state, follower) for state in CLAIMED for follower in shared}


def _between_waiting(drawing: Drawing) -> set[Edge]:
    pending, scheduled = BOXES[State.PENDING], BOXES[State.SCHEDULED]
    x = pending.x
    drawing.arrow(f"M{x + 40:g} {scheduled.y:g}L{x + 40:g} {pending.bottom:g}")
    drawing.text(x + 32, 275, "due", anchor="end")
    drawing.arrow(f"M{x + 76:g} {pending.bottom:g}L{x + 76:g} {scheduled.y:g}")
    drawing.text(x + 84, 275, "deferred", anchor="start")
    return {(State.SCHEDULED, State.PENDING), (State.PENDING, State.SCHEDULED)}


def _from_scheduled(drawing: Drawing) -> set[Edge]:
    targets = TRANSITIONS[State.SCHEDULED] - {State.PENDING}
    for target in _in_order(targets):
        drawing.arrow(across(BOXES[State.SCHEDULED], BOXES[target]))
    return {(State.SCHEDULED, target) for target in targets}


def _after(drawing: Drawing) -> set[Edge]:
    """Draw what may still happen to a settled delivery."""
    sent, pending, again = BOXES[State.SENT], BOXES[State.PENDING], BOXES[State.RETRYING]
    drawing.arrow(across(sent, BOXES[State.DELIVERED]), later=True)
    drawing.text(BOXES[State.DELIVERED].x - 30, sent.y + 10, "receipt")
    x, y = again.middle[0], sent.y + 10
    drawing.arrow(f"M{sent.x:g} {y:g}C{sent.x - 150:g} 10 {x + 12:g} 20 {x:g} {again.y:g}", later=True)
    drawing.text(sent.x - 222, y + 2, "receipt: failed", anchor="end")
    for number, state in enumerate((State.GONE, State.REJECTED, State.DEAD)):
        drawing.arrow(_over_the_top(BOXES[state], pending, number), later=True)
    drawing.text(pending.middle[0] + 12, 44, "replay", anchor="start")
    return {
        (State.SENT, State.DELIVERED),
        (State.SENT, State.RETRYING),
        (State.GONE, State.PENDING),
        (State.REJECTED, State.PENDING),
        (State.DEAD, State.PENDING),
    }


def _over_the_top(start: Box, end: Box, number: int) -> str:
    """Return a path back to the left above everything, at a height that depends on the number."""
    y, side, lane = start.middle[1], 722 + 22 * number, 20 - 7 * number
    x = end.middle[0] - 16 * number
    return (
        f"M{start.right:g} {y:g}L{side - 10:g} {y:g}Q{side:g} {y:g} {side:g} {y - 10:g}"
        f"L{side:g} {lane + 10:g}Q{side:g} {lane:g} {side - 10:g} {lane:g}"
        f"L{x + 10:g} {lane:g}Q{x:g} {lane:g} {x:g} {lane + 10:g}L{x:g} {end.y:g}"
    )


def _in_order(states: AbstractSet[State]) -> list[State]:
    """List states as they are declared, so that the same table gives the same picture."""
    return [state for state in State if state in states]
