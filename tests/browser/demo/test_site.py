"""Who may read the demo's page and act through it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.browser.demo.demos import RunningDemo

SEND = {"action": "send", "type": "new_customer", "to": "ada"}


@pytest.fixture
async def http(demo: RunningDemo) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=demo.url) as client:
        yield client


@pytest.mark.parametrize("path", ["", "live", "dashboard", "assets/demo.css"])
async def test_without_its_token_there_is_no_page(
    demo: RunningDemo, http: httpx.AsyncClient, path: str
) -> None:
    right, wrong = await http.get(path), await http.get(f"{demo.origin}/{'x' * 22}/{path}")

    assert (right.status_code < 400, wrong.status_code) == (True, 404)
    assert (await http.get(demo.origin)).status_code == 404
    acted = await http.post(f"{demo.origin}/act", data=SEND, headers={"Origin": demo.origin})
    assert acted.status_code == 404


async def test_the_address_without_its_last_slash_leads_to_the_page(demo: RunningDemo) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.get(demo.url.rstrip("/"))

    assert (answer.status_code, answer.headers["location"]) == (303, demo.url)


@pytest.mark.parametrize("host", ["rebound.example:8480", "localhost", "127.0.0.1"])
async def test_another_host_is_refused(http: httpx.AsyncClient, host: str) -> None:
    answer = await http.get("", headers={"Host": host})

    assert answer.status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "https://other.example"},
        {"Origin": "{api}"},
        {"Origin": "{own}", "Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_form_of_another_page_is_refused(
    demo: RunningDemo, http: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    given = {name: value.format(own=demo.origin, api=demo.api_url) for name, value in headers.items()}

    answer = await http.post("act", data=SEND, headers=given)

    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"action": "unknown"}, 422),
        ({"action": "send", "type": "new_customer", "to": "nobody"}, 422),
        ({"action": "send", "type": "no_such_type", "to": "ada"}, 422),
        ({"action": "person", "name": "ada", "switch": "dead", "turn": "on"}, 422),
        ({"action": "provider", "name": "sns", "switch": "down", "turn": "on"}, 422),
        ({"action": "run", "step": "7"}, 422),
        ({"action": "reset", "more": "yes"}, 422),
        ({"action": "send", "type": "x" * 5_000, "to": "ada"}, 413),
    ],
)
async def test_what_no_button_sends_is_refused(
    demo: RunningDemo, http: httpx.AsyncClient, form: dict[str, str], status: int
) -> None:
    answer = await http.post("act", data=form, headers={"Origin": demo.origin})

    assert answer.status_code == status


@pytest.mark.parametrize(
    "path",
    [
        "https://other.example",
        "//other.example",
        "/dashboard/../v1",
        "/dashboard/%2e%2e/v1",
        "/dashboard\r\nx: y",
        "/v1/users",
    ],
)
async def test_the_way_to_the_dashboard_leads_nowhere_else(
    demo: RunningDemo, http: httpx.AsyncClient, path: str
) -> None:
    answer = await http.get("dashboard", params={"to": path})

    assert (answer.status_code, answer.headers["location"]) == (303, f"{demo.api_url}/dashboard")


async def test_no_key_reaches_the_browser(http: httpx.AsyncClient) -> None:
    page = await http.get("")

    assert "tocsin_" not in page.text
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert (policy["default-src"], policy["script-src"], policy["frame-ancestors"]) == (
        "'none'",
        "'self'",
        "'none'",
    )
    assert "httponly" in (await http.get("dashboard")).headers["set-cookie"].lower()
