"""The push contract toward the gateway: the fields of an event, and every session of a person."""

from tests.blackbox.galaxy.rig.system import Notifications


async def published_event(galaxy: Notifications, user_id: str, **changes: str) -> dict[str, bytes]:
    entry_id = await galaxy.append("game.turn.ready", user_id, **changes)
    await galaxy.routes(entry_id, "published")
    (event,) = await galaxy.events(entry_id)
    assert event["event_id"] == f"{entry_id}/push:user:{user_id}".encode()
    return event


async def test_an_event_names_its_type_its_person_and_its_route(galaxy: Notifications) -> None:
    ada = galaxy.player()

    event = await published_event(galaxy, ada)

    assert event.keys() == {"user_id", "event_type", "event_id", "payload_bytes"}
    assert (event["user_id"], event["event_type"]) == (ada.encode(), b"game.turn.ready")


async def test_request_and_trace_ids_are_forwarded_when_present(galaxy: Notifications) -> None:
    event = await published_event(galaxy, galaxy.player(), request_id="request-7", trace_id="trace-7")
    without = await published_event(galaxy, galaxy.player(), request_id="", trace_id="")

    assert (event["request_id"], event["trace_id"]) == (b"request-7", b"trace-7")
    assert not {"request_id", "trace_id"} & without.keys()


async def test_no_event_is_for_one_session_alone(galaxy: Notifications) -> None:
    event = await published_event(galaxy, galaxy.player(), device_session_id="a-session")

    assert "device_session_id" not in event


async def test_each_recipient_has_an_event_of_their_own(galaxy: Notifications) -> None:
    players = {galaxy.player() for _ in range(3)}

    entry_id = await galaxy.append("game.finished", *players)

    await galaxy.routes(entry_id, "published")
    events = await galaxy.events(entry_id)
    assert sorted(event["user_id"].decode() for event in events) == sorted(players)


async def test_the_stream_of_events_is_trimmed_and_that_of_mails_is_not(galaxy: Notifications) -> None:
    await galaxy.redis.config_set("slowlog-log-slower-than", 0)
    await galaxy.redis.config_set("slowlog-max-len", 1_000)
    try:
        entry_id = await galaxy.append("game.finished", galaxy.player())
        await galaxy.routes(entry_id, "published")
        commands = [each["command"] for each in await galaxy.redis.slowlog_get(1_000)]
    finally:
        await galaxy.redis.config_set("slowlog-log-slower-than", 10_000)

    appended = {each.split()[1]: each.split()[2:5] for each in commands if each.startswith(b"XADD ")}
    assert appended[galaxy.client_events.encode()] == [b"MAXLEN", b"~", b"1024"]
    assert appended[galaxy.mail_commands.encode()][0] == b"*"
