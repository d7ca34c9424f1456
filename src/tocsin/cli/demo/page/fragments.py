"""The parts of the demo's page, each rendered anew only where a browser has an older one."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from tocsin.api.dashboard.pages.notifications import timeline
from tocsin.api.dashboard.rendering import TEMPLATES, make_environment
from tocsin.cli.demo.page.assets import asset_url
from tocsin.cli.demo.page.snapshot import Snapshot
from tocsin.cli.demo.page.stage import EVERYONE, Stage
from tocsin.cli.demo.page.tour import Tour
from tocsin.engine.clock import utc_now
from tocsin.providers.registry import BUILT_IN
from tocsin.wire.notifications import Delivery

_FOLDER = Path(__file__).parent / "templates"
_MOST_DELIVERIES = 8

PERSON_LABELS = {
    "night": "Night",
    "opted_out": "Opted out",
    "signed_out": "Signed out",
    "uninstalled": "Uninstalled",
}
PROVIDER_LABELS = {"down": "Down", "slow": "Slow"}


class Fragments:
    """Renders the page of a stage and a tour."""

    def __init__(self, stage: Stage, tour: Tour) -> None:
        self._stage = stage
        self._tour = tour

    def page(self, snapshot: Snapshot) -> str:
        """Render the whole page."""
        parts = {name: Markup(html) for name, html in self._parts(snapshot, whole=True)}  # noqa: S704
        return _render("index.html", parts=parts, examples=self._stage.examples, people=self._stage.people)

    def changed(self, snapshot: Snapshot, seen: Collection[str]) -> str:
        """Render the parts that differ from those that a browser has seen, to be swapped in."""
        return "".join(html for _, html in self._parts(snapshot, whole=False, seen=seen))

    def _parts(
        self, snapshot: Snapshot, *, whole: bool, seen: Collection[str] = ()
    ) -> Iterator[tuple[str, str]]:
        for name, template, context in self._contexts(snapshot):
            content = _render(template, **context)
            version = f"{name}:{hashlib.sha256(content.encode()).hexdigest()[:16]}"
            if version not in seen:
                # The content is rendered by a template, which escapes every value.
                shown = Markup(content)  # noqa: S704
                yield name, _render("part.html", name=name, version=version, content=shown, whole=whole)

    def _contexts(self, snapshot: Snapshot) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        tour = self._tour
        yield "tour", "tour.html", {"tour": tour, "run": tour.runs.get(tour.current)}
        for shown in snapshot.people:
            labels = PERSON_LABELS
            yield f"person-{shown.person.user_id}", "person.html", {"shown": shown, "labels": labels}
        yield "providers", "providers.html", {"providers": snapshot.providers, "labels": PROVIDER_LABELS}
        notification = snapshot.notification
        deliveries = notification.deliveries[:_MOST_DELIVERIES] if notification else []
        shown_deliveries = [(delivery, _events(delivery)) for delivery in deliveries]
        yield (
            "timeline",
            "timeline.html",
            {"notification": notification, "deliveries": shown_deliveries},
        )
        yield "news", "news.html", {"observation": tour.newest}


def _events(delivery: Delivery) -> list[Any]:
    """List the events of a delivery; rules that let it pass are counted only."""
    return [event for event in timeline(delivery) if event.code != "pass"]


@cache
def _environment() -> Environment:
    environment = make_environment(_FOLDER, TEMPLATES)
    environment.globals |= {
        "asset": asset_url,
        "everyone": EVERYONE,
        "provider_names": {entry.name: entry.title for entry in BUILT_IN},
    }
    return environment


def _render(template: str, **context: Any) -> str:
    return _environment().get_template(template).render(now=utc_now(), **context)
