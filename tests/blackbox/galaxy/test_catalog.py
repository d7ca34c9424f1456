"""The fifteen types: each by its channels, with its event and its mail command."""

import json

import pytest

from tests.blackbox.galaxy.rig.document import EVERY_ROUTE, TYPES
from tests.blackbox.galaxy.rig.system import Notifications

CHANNELS = {"push", "email"}


@pytest.mark.parametrize(("name", "kind"), EVERY_ROUTE)
async def test_a_type_is_published_by_the_channels_of_its_audience(
    galaxy: Notifications, name: str, kind: str
) -> None:
    type_ = TYPES[name]
    users = [galaxy.player()] if kind == "user" else []

    entry_id = await galaxy.append(name, *users)

    routes = await galaxy.routes(entry_id, "published", "skipped")
    published = {route.partition(":")[0] for route, each in routes.items() if each["status"] == "published"}
    skipped = {route.partition(":")[0] for route, each in routes.items() if each["status"] == "skipped"}
    assert published == type_.channels[kind]
    assert skipped == CHANNELS - published
    assert {each["event_type"] for each in await galaxy.events(entry_id)} == (
        {name.encode()} if "push" in published else set()
    )
    for command in await galaxy.commands(entry_id):
        assert json.loads(command["payload_json"])["template_id"] == name
