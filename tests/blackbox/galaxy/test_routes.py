"""Routes: one for each channel and recipient, and what becomes of each."""

import pytest

from tests.blackbox.galaxy.rig.document import ADMINISTRATED, TYPES
from tests.blackbox.galaxy.rig.system import Notifications


async def test_every_recipient_has_a_push_and_an_email_route(galaxy: Notifications) -> None:
    ada, bob = galaxy.player(), galaxy.player()

    routes = await galaxy.routes(await galaxy.append("game.finished", ada, bob))

    assert routes.keys() == {
        f"{channel}:user:{user_id}" for channel in ("push", "email") for user_id in (ada, bob)
    }


@pytest.mark.parametrize("name", ["lobby.invite.expired", "lobby.race_name.registration_denied"])
async def test_a_channel_outside_the_matrix_is_skipped(galaxy: Notifications, name: str) -> None:
    ada = galaxy.player()

    entry_id = await galaxy.append(name, ada)

    routes = await galaxy.routes(entry_id)
    assert {route: each["status"] for route, each in routes.items()} == {
        f"push:user:{ada}": "skipped",
        f"email:user:{ada}": "published",
    }
    assert await galaxy.events(entry_id) == []


async def test_an_administrator_is_known_by_their_normalized_address(galaxy: Notifications) -> None:
    routes = await galaxy.routes(await galaxy.append("game.generation_failed"))

    assert {route: each["status"] for route, each in routes.items()} == {
        "push:email:games@example.org": "skipped",
        "email:email:games@example.org": "published",
        "push:email:Night.Shift@example.org": "skipped",
        "email:email:Night.Shift@example.org": "published",
    }


@pytest.mark.parametrize("name", ADMINISTRATED)
async def test_without_administrators_one_skipped_email_route_says_so(
    troubled: Notifications, name: str
) -> None:
    entry_id = await troubled.append(name)

    routes = await troubled.routes(entry_id)
    assert {route: each["status"] for route, each in routes.items()} == {f"email:config:{name}": "skipped"}
    assert await troubled.commands(entry_id) == []


async def test_a_route_id_is_its_channel_and_its_recipient(galaxy: Notifications) -> None:
    routes = await galaxy.routes(await galaxy.append("game.finished", galaxy.player()))

    for route_id, each in routes.items():
        assert route_id == f"{each['channel']}:{each['recipient']}"


async def test_published_routes_are_in_the_streams_of_their_channels(galaxy: Notifications) -> None:
    entry_id = await galaxy.append("game.finished", galaxy.player())

    routes = await galaxy.routes(entry_id, "published")
    assert all(each["settled_at"] and each["waiting_for"] is None for each in routes.values())
    in_streams = {each["event_id"].decode() for each in await galaxy.events(entry_id)} | {
        each["delivery_id"] for each in await galaxy.commands(entry_id)
    }
    assert in_streams == {f"{entry_id}/{route}" for route in routes}


async def test_routes_can_be_searched_by_their_status(galaxy: Notifications) -> None:
    ada = galaxy.player()
    entry_id = await galaxy.append("lobby.invite.expired", ada)
    await galaxy.routes(entry_id)

    for status, route in (("published", f"email:user:{ada}"), ("skipped", f"push:user:{ada}")):
        answer = await galaxy.http.get(
            "/v1/notifications", headers=galaxy.key, params={"user": ada, "status": status}
        )
        (item,) = answer.json()["items"]
        assert item["external_id"] == entry_id
        assert [each["route_id"] for each in item["deliveries"]] == [route]


async def test_an_audience_that_a_type_does_not_have_is_refused(galaxy: Notifications) -> None:
    for name, type_ in TYPES.items():
        users = [] if "user" in type_.channels else [galaxy.player()]
        if len(type_.channels) > 1:
            continue
        refused = await galaxy.refusal(await galaxy.append(name, *users))
        assert [fault["code"] for fault in refused["faults"]] == ["audience_not_allowed"]


@pytest.mark.parametrize("name", ["lobby.invite.revoked", "auth.login_code", "game.started"])
async def test_a_type_outside_the_catalog_is_refused(galaxy: Notifications, name: str) -> None:
    entry_id = await galaxy.append(name, galaxy.player())

    refused = await galaxy.refusal(entry_id)
    assert [fault["field"] for fault in refused["faults"]] == ["type"]
    assert await galaxy.shown(entry_id) is None
