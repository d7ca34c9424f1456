"""What the guides send, at three in the morning, with the settings that Tocsin has by default."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec
import typer

from tests.edges.edge import Edge, person, running, services
from tests.engine.broadcast.broadcasting import add_segment
from tests.engine.stage import Stage, a_provider
from tests.providers.sns.rig import platform_endpoints
from tocsin.api.auth.roles import Role
from tocsin.cli.commands import app
from tocsin.cli.notifications.intents import read_intent
from tocsin.client.encoding import encode_intent
from tocsin.client.intents import Intent
from tocsin.compose.duties import duties_running
from tocsin.domain.timing.quiet_hours import QuietHoursSettings
from tocsin.engine.accept.planner import Planner
from tocsin.engine.broadcast.expansion import Expander
from tocsin.sandbox import Sandbox

ROOT = Path(__file__).parents[3]
PAGES = [
    ROOT / "README.md",
    *(page for part in ("start", "guides") for page in sorted((ROOT / "docs" / part).glob("*.md"))),
]
FENCED = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
STARTS = re.compile(r"(?:\$ )?(?=curl |tocsin send )")
OF_THE_API = re.compile(r"127\.0\.0\.1:8470|tocsin\.example\.com")
AN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SEND = "/v1/notifications"


class Call(NamedTuple):
    """A call of the API that a guide makes."""

    method: str
    path: str
    body: Any
    of_person: bool = False


def calls_of(page: Path) -> list[Call]:
    """List the calls of a page: its curls, its `tocsin send` commands and those of the Python client."""
    return [
        call
        for language, text in FENCED.findall(page.read_text())
        for call in (sends_in(text) if language == "python" else commands_in(text))
    ]


def commands_in(text: str) -> Iterator[Call]:
    lines = iter(text.replace("…", "x").splitlines())
    for line in lines:
        if start := STARTS.match(line):
            words = complete(line[start.end() :], lines)
            if words[0] == "tocsin":
                yield Call("POST", SEND, of_command(words[2:]))
            elif any(map(OF_THE_API.search, words)):
                yield of_curl(words)


def complete(command: str, lines: Iterator[str]) -> list[str]:
    """Split a command into words; it goes on in the next lines after a backslash or within quotes."""
    while True:
        try:
            if not command.endswith("\\"):
                return shlex.split(command)
        except ValueError:
            command += "\n"
        command = command.removesuffix("\\") + next(lines)


def of_command(arguments: list[str]) -> Any:
    """Parse the arguments of `tocsin send` as the command line does."""
    command: Any = typer.main.get_command(app)
    parsed = command.commands["send"].make_context("send", arguments).params
    given: dict[str, Any] = {name: parsed[name] or None for name in inspect.signature(read_intent).parameters}
    intent = read_intent(**given)
    return msgspec.json.decode(msgspec.json.encode(intent))


def of_curl(words: list[str]) -> Call:
    given = dict(pairwise(words))
    [url] = [word for word in words if word.startswith("http")]
    body = msgspec.json.decode(given["-d"]) if "-d" in given else None
    method = given.get("-X", "POST" if "-d" in given else "GET")
    return Call(method, urlsplit(url).path, body, of_person="$JWT" in given["-H"])


def sends_in(code: str) -> Iterator[Call]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "send":
            given = {each.arg: each.value for each in node.keywords}
            values = {name: literal(value) for name, value in given.items() if name}
            yield Call(
                "POST", SEND, msgspec.json.decode(encode_intent(Intent(literal(node.args[0]), **values)))
            )


def literal(node: ast.expr) -> Any:
    """Evaluate an expression; variables stand for their names."""
    names = {each.id: each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return eval(compile(ast.Expression(node), "guide", "eval"), {"__builtins__": {}}, names)  # noqa: S307 - our docs


async def made(edge: Edge, page: Path, calls: list[Call]) -> list[httpx.Response]:
    """Make the calls of a page; an id in a path is the one of the answer before."""
    whom = "ada" if any(call.path == SEND for call in calls) else page.stem
    credentials = {True: person(whom), False: await edge.key(Role.PRODUCER, page.stem)}
    answers: list[httpx.Response] = []
    for call in calls:
        path = AN_ID.sub(lambda _: last_id(answers[-1]), call.path)
        headers = credentials[call.of_person]
        answers.append(await edge.http.request(call.method, path, json=call.body, headers=headers))
        assert answers[-1].is_success, f"{page.name}: {call.method} {path}: {answers[-1].text}"
    return answers


def last_id(answer: httpx.Response) -> str:
    ids = (str(value) for name, value in answer.json().items() if name.endswith("_id"))
    return next(filter(AN_ID.match, ids))


async def test_what_the_guides_send_arrives_at_three_in_the_morning(stage: Stage) -> None:
    stage.quiet = QuietHoursSettings()
    stage.clock.move_to(datetime(2026, 1, 15, 3, 0, tzinfo=UTC))
    for user in ("ada", "42", "43"):
        await stage.device(user)
    attributes = '{"plan": "pro", "interests": ["news"]}'
    await stage.pool.execute(
        "insert into users (user_id, attributes, updated_at) values ('ada', $1::jsonb, now())", attributes
    )
    await add_segment(stage, "spring", ["42"])
    channels = {"push": ("fcm",), "email": ("smtp",)}
    acceptor = stage.an_acceptor(channels)
    expander = Expander(stage.pool, Planner(stage.catalog, channels, {}, stage.toggles), stage.clock)
    providers = a_provider("fcm"), a_provider("smtp")
    sending = set()
    async with (
        Sandbox() as sandbox,
        platform_endpoints(stage.pool, sandbox) as registered,
        running(
            services(stage.pool, clock=stage.clock, acceptor=acceptor, platform_endpoints=registered)
        ) as edge,
        stage.working(*providers),
        duties_running(expander),
    ):
        for page in PAGES:
            calls = [call for call in calls_of(page) if not call.path.startswith("/v1/admin/")]
            answers = await made(edge, page, calls)
            for call, answer in zip(calls, answers, strict=True):
                if call.path == SEND:
                    sending.add(page.stem)
                    assert "waits_for" not in answer.json()
                    rows = await stage.settled(answer.json()["notification_id"], "sent", "skipped")
                    results = {row["reason"] for row in rows}
                    assert None in results, f"{page.name}: nothing is sent"
                    assert results <= {None, "channel_not_for_recipient"}, page.name

    assert sending >= {
        "README",
        "first-notification",
        "firebase",
        "apple",
        "expo",
        "sending",
        "email",
        "client",
        "broadcasts",
    }
    assert {message.target for provider in providers for message in provider.arrived} >= {
        "adas-phone", "42", "43", "sales", "ada@example.org"
    }  # fmt: skip
