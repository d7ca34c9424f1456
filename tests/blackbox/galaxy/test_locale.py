"""Recipients are enriched by the user service when an intent is accepted, and written to in one language."""

import json

import pytest

from tests.blackbox.galaxy.rig.document import ADMINISTRATED
from tests.blackbox.galaxy.rig.system import Notifications


async def locale_of(galaxy: Notifications, user_id: str) -> str:
    """Return the language of the mail that a person gets."""
    entry_id = await galaxy.append("game.finished", user_id)
    await galaxy.routes(entry_id, "published")
    (command,) = await galaxy.commands(entry_id)
    return str(json.loads(command["payload_json"])["locale"])


async def test_a_supported_language_is_used(galaxy: Notifications) -> None:
    assert await locale_of(galaxy, galaxy.player(preferred_language="en")) == "en"


@pytest.mark.parametrize("language", ["de", "en-GB", "", None, "no language!", 7])
async def test_any_other_language_falls_back_to_english(galaxy: Notifications, language: object) -> None:
    assert await locale_of(galaxy, galaxy.player(preferred_language=language)) == "en"


async def test_a_person_is_looked_up_by_id_and_mailed_at_the_address_of_the_user_service(
    galaxy: Notifications,
) -> None:
    ada = galaxy.player(email="Ada.Lovelace@Example.org")

    entry_id = await galaxy.append("game.finished", ada)

    await galaxy.routes(entry_id, "published")
    (command,) = await galaxy.commands(entry_id)
    assert json.loads(command["payload_json"])["to"] == ["Ada.Lovelace@Example.org"]
    assert galaxy.users.asked[ada] == 1


async def test_an_intent_that_was_accepted_is_not_looked_up_again(galaxy: Notifications) -> None:
    ada = galaxy.player(email="before@example.org")
    entry_id = await galaxy.append("game.finished", ada)
    await galaxy.accepted(entry_id)
    galaxy.player(ada, email="after@example.org")

    await galaxy.routes(entry_id, "published")
    (command,) = await galaxy.commands(entry_id)
    assert json.loads(command["payload_json"])["to"] == ["before@example.org"]
    assert galaxy.users.asked[ada] == 1


async def test_administrators_are_not_looked_up(galaxy: Notifications) -> None:
    before = galaxy.users.asked.total()

    for name in ADMINISTRATED:
        await galaxy.routes(await galaxy.append(name))

    assert galaxy.users.asked.total() == before
