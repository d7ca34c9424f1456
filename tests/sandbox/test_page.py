from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.providers.sandboxes import Caller, calling
from tocsin.sandbox import Chance, Cut, Latency, Outage, Pass, Quota, Refuse, Sandbox
from tocsin.sandbox.appearance import Appearance, appearance, device_kind
from tocsin.sandbox.phones import Push, TargetKind

PAGE_FILES = {
    "index.html": "text/html; charset=UTF-8",
    "style.css": "text/css; charset=UTF-8",
    "page.js": "text/javascript; charset=UTF-8",
    "icon.svg": "image/svg+xml",
}


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
async def caller(sandbox: Sandbox) -> AsyncIterator[Caller]:
    async with calling(sandbox) as ready:
        yield ready


def receive(
    sandbox: Sandbox,
    message: dict[str, Any],
    *,
    provider: str = "fcm",
    target_kind: TargetKind = "token",
    target: str = "a",
) -> None:
    push = Push(target_kind=target_kind, target=target, message_id="m", message=message)
    sandbox.phones.receive(provider, push)


async def feed(caller: Caller, cursor: str = "") -> dict[str, Any]:
    reply = await caller.json("GET", f"/_sandbox/live?cursor={cursor}")
    assert reply.status == 200
    body: dict[str, Any] = reply.body
    return body


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("path", ["/", "/_sandbox/"])
async def test_both_listeners_have_the_page(sandbox: Sandbox, path: str, *, secure: bool) -> None:
    async with calling(sandbox, secure=secure, authorized=False) as caller:
        reply = await caller.call("GET", path)

    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=UTF-8"
    assert b"<title>Tocsin sandbox</title>" in reply.body


@pytest.mark.parametrize(("name", "kind"), PAGE_FILES.items())
async def test_every_file_of_the_page_comes_with_a_strict_policy(
    caller: Caller, name: str, kind: str
) -> None:
    reply = await caller.call("GET", f"/_sandbox/page/{name}")

    policy = reply.headers["content-security-policy"].split("; ")
    assert (reply.status, reply.headers["content-type"]) == (200, kind)
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["", "nothing.js", "__init__.py", "..%2fapp.py"])
async def test_nothing_but_the_files_of_the_page_is_served(caller: Caller, name: str) -> None:
    assert (await caller.call("GET", f"/_sandbox/page/{name}")).status == 404


async def test_the_feed_goes_on_from_its_cursor(sandbox: Sandbox, caller: Caller) -> None:
    empty = await feed(caller)
    assert (empty["messages"], empty["total"]) == ([], 0)
    receive(sandbox, {"notification": {"title": "one"}})
    first = await feed(caller, empty["cursor"])
    receive(sandbox, {"notification": {"title": "two"}})
    second = await feed(caller, first["cursor"])
    third = await feed(caller, second["cursor"])

    assert [message["look"]["title"] for message in first["messages"]] == ["one"]
    assert [message["look"]["title"] for message in second["messages"]] == ["two"]
    assert (third["messages"], third["cursor"], third["total"]) == ([], second["cursor"], 2)
    assert not second["fresh"]
    assert not third["fresh"]


async def test_after_a_reset_the_feed_begins_anew_even_at_the_same_number(
    sandbox: Sandbox, caller: Caller
) -> None:
    receive(sandbox, {"notification": {"title": "before"}})
    before = await feed(caller)
    sandbox.reset()
    receive(sandbox, {"notification": {"title": "after"}})
    receive(sandbox, {"notification": {"title": "later"}})

    after = await feed(caller, before["cursor"])

    assert after["fresh"]
    assert [message["look"]["title"] for message in after["messages"]] == ["after", "later"]


async def test_a_reader_left_far_behind_gets_the_newest_500(sandbox: Sandbox, caller: Caller) -> None:
    receive(sandbox, {})
    start = await feed(caller)
    for _ in range(500):
        receive(sandbox, {})
    following = await feed(caller, start["cursor"])
    receive(sandbox, {})
    receive(sandbox, {})
    behind = await feed(caller, start["cursor"])

    assert (following["fresh"], len(following["messages"])) == (False, 500)
    assert (behind["fresh"], len(behind["messages"])) == (True, 500)
    assert behind["messages"][-1]["number"] == behind["total"] == 503


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "99999999999999999999.0", "%F0%9F%98%80"])
async def test_a_cursor_that_leads_nowhere_begins_anew(sandbox: Sandbox, caller: Caller, cursor: str) -> None:
    receive(sandbox, {})

    assert [message["number"] for message in (await feed(caller, cursor))["messages"]] == [1]


async def test_the_feed_tells_counts_and_faults_of_every_stand_in(sandbox: Sandbox, caller: Caller) -> None:
    await caller.send({"token": "a"})
    faults = sandbox.faults_of("apns")
    faults.outage(Outage(seconds=60))
    faults.script("a", Pass())
    faults.chances(Chance(0.25, Refuse("InternalServerError")), Chance(0.1, Cut()))
    faults.latency(Latency(0.05, 0.2))
    faults.project_quota(Quota(100))
    faults.device_quota(Quota(5, per_seconds=1))

    states = {state["name"]: state for state in (await feed(caller))["providers"]}

    assert set(states) == {"fcm", "apns", "expo", "webpush", "webhook", "sns", "smtp"}
    assert (states["fcm"]["requests"], states["fcm"]["answers"]) == (1, {"OK": 1})
    assert (states["fcm"]["outage"], states["fcm"]["faults"]) == (None, [])
    assert states["apns"]["outage"]["seconds"] == 60
    assert states["apns"]["faults"] == [
        "scripts for 1 target",
        "25% InternalServerError",
        "10% cut",
        "answers take 50 to 200 ms",
        "at most 100 per 60 s in all",
        "at most 5 per 1 s a device",
    ]


@pytest.mark.parametrize(
    ("provider", "message", "shown"),
    [
        (
            "fcm",
            {
                "notification": {"title": "T", "body": "B", "image": "https://a.example/1.png"},
                "android": {"notification": {"title": "On Android", "notification_count": 3}},
                "data": {"deep_link": "app://x"},
            },
            Appearance(
                title="On Android", body="B", image="https://a.example/1.png", badge=3, link="app://x"
            ),
        ),
        ("fcm", {"data": {"a": "b"}}, Appearance(silent=True)),
        (
            "apns",
            {"aps": {"alert": {"title": "T", "subtitle": "S", "body": "B"}, "badge": 2}, "image": "i"},
            Appearance(title="T", body="S\nB", badge=2, image="i"),
        ),
        ("apns", {"aps": {"alert": "Words"}}, Appearance(body="Words")),
        ("apns", {"aps": {"content-available": 1}}, Appearance(silent=True)),
        (
            "expo",
            {"title": "T", "richContent": {"image": "i"}, "data": {"url": "/x"}},
            Appearance(title="T", image="i", link="/x"),
        ),
        ("expo", {"_contentAvailable": True}, Appearance(silent=True)),
        (
            "webpush",
            {"content": {"title": "T", "icon": "i", "url": "u"}},
            Appearance(title="T", icon="i", link="u"),
        ),
        ("webpush", {"content": "Words"}, Appearance(body="Words")),
        (
            "smtp",
            {"subject": "S", "text": "T", "html": "<p>", "headers": {"FROM": "a@example.org"}},
            Appearance(title="S", body="T", sender="a@example.org", html=True),
        ),
        (
            "webhook",
            {"event": {"type": "paid", "data": {}}},
            Appearance(title="paid", body='{\n  "type": "paid",\n  "data": {}\n}'),
        ),
        # Whatever a client may have sent, the page has to show something.
        ("fcm", {"notification": "words", "android": [], "data": None}, Appearance()),
        ("apns", {"aps": {"alert": 5, "badge": True}}, Appearance()),
        ("smtp", {"headers": None, "subject": 1}, Appearance()),
    ],
)
def test_a_device_shows_what_its_message_says(
    provider: str, message: dict[str, Any], shown: Appearance
) -> None:
    phones = Sandbox().phones
    phones.receive(provider, Push(target="a", message_id="m", message=message))
    [received] = phones.messages(after=0, limit=1)

    assert appearance(received) == shown


def test_a_long_text_is_cut() -> None:
    sandbox = Sandbox()
    receive(sandbox, {"notification": {"body": "x" * 100_000}})
    [received] = sandbox.phones.messages(after=0, limit=1)

    assert appearance(received).body == "x" * 2_000 + "…"


@pytest.mark.parametrize(
    ("provider", "target_kind", "kind"),
    [
        ("fcm", "token", "phone"),
        ("fcm", "topic", "topic"),
        ("fcm", "condition", "topic"),
        ("webpush", "token", "browser"),
        ("smtp", "token", "mailbox"),
        ("webhook", "token", "endpoint"),
        ("another", "token", "phone"),
    ],
)
def test_each_provider_reaches_its_kind_of_device(provider: str, target_kind: TargetKind, kind: str) -> None:
    sandbox = Sandbox()
    receive(sandbox, {}, provider=provider, target_kind=target_kind)
    [received] = sandbox.phones.messages(after=0, limit=1)

    assert device_kind(received) == kind


async def test_a_message_is_shown_whole(sandbox: Sandbox, caller: Caller) -> None:
    receive(sandbox, {"notification": {"title": "T"}})

    reply = await caller.json("GET", "/_sandbox/messages/1")

    assert (reply.body["number"], reply.body["message"]) == (1, {"notification": {"title": "T"}})


async def test_the_html_of_a_mail_comes_where_nothing_of_it_can_run(sandbox: Sandbox, caller: Caller) -> None:
    receive(sandbox, {"html": "<!doctype html><p>Hello</p>"}, provider="smtp")

    reply = await caller.call("GET", "/_sandbox/messages/1/html")

    policy = reply.headers["content-security-policy"].split("; ")
    assert reply.body == b'<!doctype html><base target="_blank"><p>Hello</p>'
    assert {"default-src 'none'", "sandbox", "frame-ancestors 'self'"} <= set(policy)
    assert "script" not in reply.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["0", "2", "x", "1/html", "1/raw", "2/html", "-1"])
async def test_a_message_that_is_not_there_is_a_problem(sandbox: Sandbox, caller: Caller, path: str) -> None:
    receive(sandbox, {"html": "<p>not a mail</p>"})

    reply = await caller.call("GET", f"/_sandbox/messages/{path}")

    assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"sec-fetch-site": "same-origin"}, 204),
        ({"sec-fetch-site": "none"}, 204),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "{own}"}, 204),
        ({"origin": "{own}", "sec-fetch-site": "same-origin"}, 204),
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "http://evil.example:80", "host": "evil.example:80"}, 421),
        ({"host": "evil.example:80"}, 421),
        ({"origin": "http://localhost:80", "host": "localhost:80"}, 204),
        ({"origin": "http://sandbox.localhost:80", "host": "sandbox.localhost:80"}, 204),
    ],
)
async def test_a_browser_changes_the_sandbox_from_its_own_page_alone(
    sandbox: Sandbox, caller: Caller, headers: dict[str, str], status: int
) -> None:
    receive(sandbox, {})
    given = {name: value.format(own=sandbox.http_url) for name, value in headers.items()}

    reply = await caller.call("POST", "/_sandbox/reset", headers=given)

    assert reply.status == status
    assert sandbox.phones.count == (0 if status == 204 else 1)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:8480", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("[", 400),
        ("localhost:8480", 200),
        ("phones.localhost", 200),
        ("127.0.0.1", 200),
        ("[::1]:8480", 200),
    ],
)
@pytest.mark.parametrize(
    "path", ["live", "messages", "messages/1", "phones", "phones/a", "stats", "faults", "service_accounts/p"]
)
async def test_a_name_that_was_made_to_resolve_to_this_machine_reads_nothing(
    sandbox: Sandbox, caller: Caller, path: str, host: str, status: int
) -> None:
    receive(sandbox, {"data": {"secret": "s"}})

    reply = await caller.call("GET", f"/_sandbox/{path}", headers={"host": host})

    assert reply.status == status
    assert status == 200 or "secret" not in str(reply.body)


async def test_writes_of_other_pages_are_refused_over_http_2_as_well(sandbox: Sandbox) -> None:
    async with calling(sandbox, secure=True) as caller:
        foreign = await caller.call(
            "PUT", "/_sandbox/faults/outage", b"{}", {"origin": "https://evil.example"}
        )
        own = await caller.call("PUT", "/_sandbox/faults/outage", b"{}", {"origin": sandbox.https_url})

    assert (foreign.status, foreign.body["code"]) == (403, "foreign_origin")
    assert own.status == 200
