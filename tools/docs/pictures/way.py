"""The picture of the path of a notification; each step has the module of its code."""

from importlib.util import find_spec
from typing import NamedTuple

from tools.docs.pictures.svg import Box, Drawing, across, down


class Step(NamedTuple):
    """One step, what it does, and the module of its code."""

    title: str
    does: tuple[str, ...]
    module: str | None = None


ACCEPTING = (
    Step("producer", ("POST /v1/notifications", "or tocsin send")),
    Step("check", ("type, payload, audience:", "every fault is reported"), "engine.accept.planner"),
    Step("plan", ("one delivery per recipient", "and channel, with its lane"), "domain.plan"),
    Step("accept", ("one transaction for all", "that arrive together"), "engine.accept.acceptor"),
)
SENDING = (
    Step("claim", ("each lane takes what is", "due, with a lease"), "store.deliveries.claim"),
    Step("decide", ("whether and when, and why;", "one row per device"), "engine.dispatch.rules"),
    Step("render", ("texts and data in the", "person's language"), "engine.dispatch.render"),
    Step("send", ("one lane per provider,", "no transaction open"), "engine.dispatch.sender"),
    Step("settle", ("outcome, attempt, device:", "guarded by the lease"), "engine.settle.writer"),
)
WIDTH, HEIGHT, GAP, LEFT = 186, 86, 40, 32


def way_picture() -> str:
    """Draw both halves of the path and the tables between them."""
    for step in (*ACCEPTING, *SENDING):
        if step.module and find_spec(f"tocsin.{step.module}") is None:
            raise ValueError(
                f"the path of a notification has the module tocsin.{step.module}, which does not exist"
            )
    drawing = Drawing(
        1178,
        420,
        "The path of a notification",
        "Accepting is one Postgres transaction; sending starts from stored rows and can be repeated.",
    )
    drawing.band(Box(16, 14, 1146, 130), "API process: 202 is answered after the commit")
    drawing.band(Box(16, 276, 1146, 130), "worker process: any step can be repeated after a crash")
    accepting = [Box(LEFT + number * (WIDTH + GAP), 44, WIDTH, HEIGHT) for number in range(len(ACCEPTING))]
    sending = [Box(LEFT + number * (WIDTH + GAP), 306, WIDTH, HEIGHT) for number in range(len(SENDING))]
    stored = Box(LEFT, 182, 5 * WIDTH + 4 * GAP, 56)
    for row, boxes in ((ACCEPTING, accepting), (SENDING, sending)):
        for number, (step, box) in enumerate(zip(row, boxes, strict=True)):
            lines = [*step.does, *([f"{step.module}"] if step.module else [])]
            drawing.box(box, "plain" if step.module else "waits", step.title, lines)
            if number:
                drawing.arrow(across(boxes[number - 1], box))
    drawing.box(stored, "good", "Postgres", ["notifications, deliveries, attempts, devices"])
    drawing.arrow(down(accepting[-1], stored, arrive=accepting[-1].middle[0]))
    drawing.text(accepting[-1].middle[0] - 12, 166, "store, NOTIFY", anchor="end")
    drawing.arrow(down(stored, sending[0], leave=sending[0].middle[0]))
    drawing.text(sending[0].middle[0] + 12, 262, "wake, SKIP LOCKED", anchor="start")
    x = sending[-1].middle[0]
    drawing.arrow(f"M{x:g} {sending[-1].y:g}L{x:g} {stored.bottom:g}")
    drawing.text(x - 12, 262, "sent, or the next attempt", anchor="end")
    return drawing.written()
