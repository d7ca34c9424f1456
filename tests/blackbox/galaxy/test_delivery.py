"""The whole way: an intent goes in, a player's sessions get the event and their mailbox the mail."""

import json
from typing import Any, cast

import pytest

from tests.blackbox.galaxy.rig.document import EVERY_ROUTE, TYPES, WITH_EVENT
from tests.blackbox.galaxy.rig.mail_sink import MailSink
from tests.blackbox.galaxy.rig.sessions import player_session
from tests.blackbox.galaxy.rig.system import Notifications
from tests.waiting import found


async def test_every_session_of_a_player_gets_every_event(galaxy: Notifications, gateway: str) -> None:
    ada, other = galaxy.player(), galaxy.player()
    async with (
        player_session(gateway, ada) as phone,
        player_session(gateway, ada) as browser,
        player_session(gateway, other) as stranger,
    ):
        for name in WITH_EVENT:
            entry_id = await galaxy.append(name, ada, request_id="request-5")

            event_id = f"{entry_id}/push:user:{ada}"
            got = await phone.event(event_id)
            assert got == await browser.event(event_id)
            assert (got["event_type"], got["request_id"]) == (name, "request-5")
            (entry,) = await galaxy.events(entry_id)
            assert got["payload"] == entry["payload_bytes"]

    assert stranger.events == []
    assert len(phone.events) == len(WITH_EVENT)


async def test_a_session_continues_after_the_event_it_got_last(galaxy: Notifications, gateway: str) -> None:
    ada = galaxy.player()
    async with player_session(gateway, ada) as session:
        first = await galaxy.append("game.turn.ready", ada)
        await session.event(f"{first}/push:user:{ada}")
        last_id = session.ids[-1]

    missed = await galaxy.append("game.finished", ada)
    await galaxy.routes(missed, "published")
    async with player_session(gateway, ada, after=last_id) as session:
        event = await session.event(f"{missed}/push:user:{ada}")

    assert event["event_type"] == "game.finished"
    assert len(session.events) == 1


@pytest.mark.parametrize("name", [name for name, kind in EVERY_ROUTE if kind == "user"])
async def test_a_mail_of_every_type_arrives_once(
    galaxy: Notifications, mail_sink: MailSink, name: str
) -> None:
    ada = galaxy.player()

    entry_id = await galaxy.append(name, ada)

    mail = await arrived(mail_sink, f"{ada}@example.org")
    assert mail["X-Delivery-Id"] == f"{entry_id}/email:user:{ada}"
    assert mail["Subject"]
    shown = TYPES[name].payload.get("game_name", TYPES[name].payload.get("race_name"))
    assert str(shown) in f"{mail['Subject']} {mail['body']}"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("geo.review_recommended", "geo@example.org"),
        ("game.generation_failed", "games@example.org"),
        ("lobby.runtime_paused_after_start", "lobby@example.org"),
        ("lobby.application.submitted", "public@example.org"),
    ],
)
async def test_administrators_of_a_type_get_its_mail(
    galaxy: Notifications, mail_sink: MailSink, name: str, address: str
) -> None:
    entry_id = await galaxy.append(name)

    await arrived(mail_sink, address, f"{entry_id}/email:email:{address}")


async def test_a_command_that_comes_twice_is_one_mail(galaxy: Notifications, mail_sink: MailSink) -> None:
    ada = galaxy.player()
    entry_id = await galaxy.append("game.finished", ada)
    await arrived(mail_sink, f"{ada}@example.org")
    (command,) = await galaxy.commands(entry_id)

    await galaxy.redis.xadd(galaxy.mail_commands, cast("dict[Any, Any]", command))
    after = galaxy.player()
    await galaxy.append("game.finished", after)

    await arrived(mail_sink, f"{after}@example.org")
    assert len(mail_sink.mails_to(f"{ada}@example.org")) == 1


async def test_a_mail_that_another_service_commands_passes_by_the_notification_service(
    galaxy: Notifications, mail_sink: MailSink
) -> None:
    """Login codes go from their service to the mailer: here a command of another source."""
    payload = {
        "to": ["login@example.org"],
        "template_id": "lobby.race_name.registered",
        "locale": "en",
        "variables": {"race_name": "Direct"},
    }
    before = await galaxy.redis.xlen(galaxy.intents)
    await galaxy.redis.xadd(
        galaxy.mail_commands,
        {
            "delivery_id": "login-1",
            "source": "auth",
            "payload_mode": "template",
            "idempotency_key": "auth:login-1",
            "requested_at_ms": "1767225600000",
            "payload_json": json.dumps(payload),
        },
    )

    mail = await arrived(mail_sink, "login@example.org")
    assert "Direct" in f"{mail['Subject']} {mail['body']}"
    assert await galaxy.redis.xlen(galaxy.intents) == before


async def arrived(sink: MailSink, address: str, delivery_id: str | None = None) -> dict[str, str]:
    """Wait for a mail to an address, and return its headers and its text as `body`."""

    async def look() -> dict[str, str] | None:
        for mail in sink.mails_to(address):
            if delivery_id in {None, mail["X-Delivery-Id"]}:
                text = mail.get_body(("plain",))
                assert text is not None
                return {**{name: str(value) for name, value in mail.items()}, "body": text.get_content()}
        return None

    return await found(look)
