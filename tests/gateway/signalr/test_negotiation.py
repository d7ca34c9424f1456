import pytest

from tests.gateway.clients import ClientEvents, RunningGateway, bearer
from tests.gateway.signalr.clients import PATH, hub_socket, negotiate
from tests.waiting import until
from tocsin.domain.errors import SettingsError
from tocsin.settings.load import load_settings

APP = "https://app.example.com"
SIGNED = {"Authorization": ""}
EVENTS = {"Accept": "text/event-stream"}


async def test_the_answer_has_what_a_client_needs_to_connect(events: ClientEvents) -> None:
    async with (
        events.gateway(signalr_path=PATH) as hub,
        events.gateway(signalr_path=PATH, websockets=False) as without,
    ):
        newest = await negotiate(hub)
        later = await negotiate(hub, query="negotiateVersion=7")
        oldest = await negotiate(hub, query="")
        limited = await negotiate(without)

    assert newest["negotiateVersion"] == later["negotiateVersion"] == 1
    assert len({newest["connectionToken"], newest["connectionId"], later["connectionToken"]}) == 3
    assert (oldest["negotiateVersion"], "connectionToken" in oldest) == (0, False)
    assert newest["availableTransports"] == [
        {"transport": "WebSockets", "transferFormats": ["Text"]},
        {"transport": "ServerSentEvents", "transferFormats": ["Text"]},
    ]
    assert limited["availableTransports"] == newest["availableTransports"][1:]


async def test_a_connection_id_of_version_0_is_the_connection_token(hub: RunningGateway) -> None:
    answer = await negotiate(hub, query="negotiateVersion=0")
    async with hub_socket(hub, id=answer["connectionId"]) as socket:
        await socket.agree()


async def test_pages_of_allowed_origins_may_ask_post_and_read_the_answer(events: ClientEvents) -> None:
    async with events.gateway(signalr_path=PATH, allowed_origins=[APP]) as hub:
        asked = {
            "Origin": APP,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-requested-with,x-signalr-user-agent",
        }
        for path in (PATH, f"{PATH}/negotiate"):
            async with hub.http.options(f"{hub.url}{path}", headers=asked) as response:
                assert response.status == 204
                assert response.headers["access-control-allow-origin"] == APP
                assert response.headers["access-control-allow-credentials"] == "true"
                assert response.headers["access-control-allow-methods"] == "GET, POST"
                allowed = response.headers["access-control-allow-headers"].split(", ")
                assert set(asked["Access-Control-Request-Headers"].split(",")) <= set(allowed)
        url = f"{hub.url}{PATH}/negotiate?negotiateVersion=1"
        for origin, status in ((APP, 200), ("https://evil.example", 403)):
            async with hub.http.post(url, headers=bearer() | {"Origin": origin}) as response:
                assert response.status == status
                found = response.headers.get("access-control-allow-origin")
                assert found == (APP if status == 200 else None)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", f"{PATH}/negotiate?negotiateVersion=1", {}, 401),
        ("POST", f"{PATH}/negotiate?negotiateVersion=x", SIGNED, 400),
        ("POST", f"{PATH}/negotiate?last_event_id=x", SIGNED, 422),
        ("GET", f"{PATH}/negotiate", SIGNED, 405),
        ("DELETE", PATH, SIGNED, 405),
        ("GET", PATH, SIGNED | EVENTS, 400),
        ("GET", f"{PATH}?id=x", SIGNED, 400),
        ("GET", f"{PATH}?id=x", SIGNED | EVENTS, 404),
        ("GET", f"{PATH}?id=x", EVENTS, 401),
        ("POST", PATH, SIGNED, 400),
        ("POST", f"{PATH}?id=x", SIGNED, 404),
        ("POST", f"{PATH}?id=x", {}, 401),
        ("POST", f"{PATH}/", SIGNED, 404),
    ],
)
async def test_what_the_hub_does_not_offer_is_refused(
    hub: RunningGateway, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    # A token made when the tests were collected would have expired by now.
    signed = bearer() if headers.keys() & SIGNED.keys() else {}
    async with hub.http.request(method, f"{hub.url}{path}", headers=headers | signed) as response:
        assert response.status == status
        assert (await response.json(content_type=None))["status"] == status


async def test_without_a_path_there_is_no_hub(gateway: RunningGateway) -> None:
    for path in ("/negotiate", f"{PATH}/negotiate", ""):
        async with gateway.http.post(f"{gateway.url}{path}", headers=bearer()) as response:
            assert response.status == 404


async def test_a_gateway_that_stops_negotiates_no_more(events: ClientEvents) -> None:
    async with events.gateway(signalr_path=PATH) as hub, hub_socket(hub) as socket:
        await socket.agree()
        hub.stream.sessions.is_stopping = True
        url = f"{hub.url}{PATH}/negotiate?negotiateVersion=1"
        async with hub.http.post(url, headers=bearer()) as response:
            assert response.status == 503
        hub.stop.set()
        assert await socket.rest() == [{"type": 7, "error": "restart", "allowReconnect": True}]
        assert socket.close_code == 1012
        await until(lambda: not hub.stream.sessions._by_user)


@pytest.mark.parametrize("path", ["/v1/events", "/v1/events/ws", "hub", "/hub/", "/a b", "/a?b"])
def test_a_path_that_cannot_be_served_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match=r"gateway\.signalr_path"):
        load_settings({"TOCSIN_GATEWAY__SIGNALR_PATH": path})


def test_pings_must_come_before_clients_give_up() -> None:
    load_settings({"TOCSIN_GATEWAY__PING_SECONDS": "30"})
    with pytest.raises(SettingsError, match=r"gateway\.ping_seconds.*below 30"):
        load_settings({"TOCSIN_GATEWAY__PING_SECONDS": "30", "TOCSIN_GATEWAY__SIGNALR_PATH": "/hub"})
