"""Expo's own SDK for Node, as npm has it, against the stand-in."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.providers.expo.rig import stand_in, token
from tocsin.sandbox import Refuse, Sandbox, SandboxSettings
from tocsin.sandbox.expo.errors import MESSAGE_ERRORS, REQUEST_ERRORS
from tocsin.sandbox.expo.service import Expo, receipt_of

SOURCE = Path(__file__).parent / "expo_sdk"
OLDEST_NODE = 20
INSTALL_SECONDS = 90
TRIES = 3


class Sdk:
    """Runs the SDK in a process of its own, which ends when its jobs are done."""

    def __init__(self, folder: Path, base_url: str, ca_file: Path) -> None:
        self._folder = folder
        self._environment = os.environ | {"EXPO_BASE_URL": base_url, "NODE_EXTRA_CA_CERTS": str(ca_file)}

    async def run(self, *jobs: dict[str, Any]) -> list[dict[str, Any]]:
        process = await asyncio.create_subprocess_exec(
            "node",
            str(self._folder / "client.js"),
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, complaint = await process.communicate(msgspec.json.encode(jobs))
        assert process.returncode == 0, complaint.decode()
        return msgspec.json.decode(output, type=list[dict[str, Any]])

    async def send(self, *messages: dict[str, Any], **options: Any) -> dict[str, Any]:
        (result,) = await self.run({"job": "send", "messages": messages, **options})
        return result

    async def receipts(self, *ids: str) -> dict[str, Any]:
        (result,) = await self.run({"job": "receipts", "ids": ids})
        return result


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest) -> Path:
    """Install the SDK once, in the cache of the tests."""
    assert request.config.cache is not None
    if (reason := node_fault()) is not None:
        pytest.skip(f"EXPO'S OWN SDK WAS NOT TRIED: {reason}")
    content = b"".join(file.read_bytes() for file in sorted(SOURCE.iterdir()))
    home = request.config.cache.mkdir("expo_sdk")
    folder = home / hashlib.sha256(content).hexdigest()[:16]
    if not folder.exists() and (reason := install(home, folder)) is not None:
        pytest.skip(f"EXPO'S OWN SDK WAS NOT TRIED: {reason}")
    return folder


def node_fault() -> str | None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        return f"install Node.js {OLDEST_NODE} or newer with npm."
    version = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < OLDEST_NODE:
        return f"it needs Node.js {OLDEST_NODE} or newer, and this is {version.strip()}."
    return None


def install(home: Path, folder: Path) -> str | None:
    """Install aside and move into place, since other test processes may be doing the same."""
    with tempfile.TemporaryDirectory(dir=home, ignore_cleanup_errors=True) as parent:
        aside = Path(parent) / "sdk"
        shutil.copytree(SOURCE, aside)
        argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
        try:
            subprocess.run(
                argv, cwd=aside, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
        except subprocess.CalledProcessError as fault:
            errors = [line for line in fault.stderr.splitlines() if line.startswith("npm error")]
            return f"`npm ci` failed; is the package registry reachable? ({'; '.join(errors[:2])})"
        except subprocess.TimeoutExpired:
            return f"`npm ci` took more than {INSTALL_SECONDS} s; is the package registry reachable?"
        try:
            aside.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return None


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.reset()
    return running


@pytest.fixture
def expo(sandbox: Sandbox) -> Expo:
    return stand_in(sandbox)


@pytest.fixture
def sdk(installed: Path, sandbox: Sandbox) -> Sdk:
    return Sdk(installed, sandbox.https_url, sandbox.ca_file)


def push(name: str, **fields: Any) -> dict[str, Any]:
    return {"to": token(name), "title": "Hello", "body": f"for {name}", **fields}


async def test_chunks_are_sent_and_every_ticket_has_its_receipt(sandbox: Sandbox, sdk: Sdk) -> None:
    names = [f"phone{number}" for number in range(350)]

    sent = await sdk.send(*(push(name) for name in names))
    ids = [ticket["id"] for ticket in sent["tickets"]]
    asked = await sdk.receipts(*ids)

    assert (sent["chunks"], asked["chunks"]) == ([100, 100, 100, 50], [300, 50])
    received = {one.target: one.message_id for one in sandbox.phones.messages(after=0, limit=1_000)}
    assert ids == [received[token(name)] for name in names]
    assert asked["receipts"] == {ticket: {"status": "ok"} for ticket in ids}
    assert sandbox.stats("expo").answers == {"OK": 4, "RECEIPTS": 2}


async def test_the_plain_listener_serves_it_too(installed: Path, sandbox: Sandbox) -> None:
    sdk = Sdk(installed, sandbox.http_url, sandbox.ca_file)

    sent = await sdk.send(push("phone"), {"to": [token("a"), token("b")], "body": "for both"})

    assert [ticket["status"] for ticket in sent["tickets"]] == ["ok"] * 3


async def test_every_field_of_the_sdk_is_taken(sandbox: Sandbox, sdk: Sdk) -> None:
    message = push(
        "phone",
        data={"delivery_id": "d1", "nested": {"a": [1]}},
        subtitle="s",
        sound={"critical": True, "name": "default", "volume": 0.5},
        ttl=60,
        expiration=1_900_000_000,
        priority="high",
        interruptionLevel="time-sensitive",
        badge=1,
        channelId="c",
        icon="i",
        richContent={"image": "https://example.org/a.png"},
        categoryId="c",
        mutableContent=True,
        collapseId="c",
        tag="t",
        _contentAvailable=True,
    )

    sent = await sdk.send(message)

    assert sent["tickets"][0]["status"] == "ok"
    (received,) = sandbox.phones.messages(after=0, limit=10)
    assert (received.message, received.delivery_id) == (message, "d1")


async def test_errors_of_messages_come_in_tickets_and_in_receipts(expo: Expo, sdk: Sdk) -> None:
    codes = sorted(MESSAGE_ERRORS)
    for code in codes:
        expo.faults.script(token(f"ticket-{code}"), Refuse(code))
        expo.faults.script(receipt_of(token(f"receipt-{code}")), Refuse(code))

    refused, taken = await sdk.run(
        {"job": "send", "messages": [push(f"ticket-{code}") for code in codes]},
        {"job": "send", "messages": [push(f"receipt-{code}") for code in codes]},
    )
    ids = [ticket["id"] for ticket in taken["tickets"]]
    asked = await sdk.receipts(*ids, "unknown")

    assert [ticket["details"]["error"] for ticket in refused["tickets"]] == codes
    assert [asked["receipts"][ticket]["details"]["error"] for ticket in ids] == codes
    assert "unknown" not in asked["receipts"]


async def test_errors_of_requests_are_errors_of_the_sdk(expo: Expo, sdk: Sdk) -> None:
    codes = sorted(REQUEST_ERRORS)
    for code in codes:
        expo.faults.script(token(code), Refuse(code), repeat=True)

    results = await sdk.run(*({"job": "send", "messages": [push(code)]} for code in codes))

    assert [(result["error"]["code"], result["error"]["statusCode"]) for result in results] == [
        (code, REQUEST_ERRORS[code].status) for code in codes
    ]
    assert expo.counters.stats().answers["TOO_MANY_REQUESTS"] == TRIES


async def test_several_projects_are_told_apart(expo: Expo, sdk: Sdk) -> None:
    expo.projects[token("b")] = "@other/app"

    result = await sdk.send(push("a"), push("b"))

    assert result["error"]["code"] == "PUSH_TOO_MANY_EXPERIENCE_IDS"
    assert result["error"]["details"] == {"@sandbox/app": [token("a")], "@other/app": [token("b")]}


async def test_an_access_token_opens_the_door(expo: Expo, sdk: Sdk) -> None:
    expo.access_token = "secret"

    with_it = await sdk.send(push("phone"), accessToken="secret")
    without = await sdk.send(push("phone"))

    assert with_it["tickets"][0]["status"] == "ok"
    assert (without["error"]["code"], without["error"]["statusCode"]) == ("UNAUTHORIZED", 401)


async def test_a_device_that_left_is_told_in_the_ticket(sandbox: Sandbox, sdk: Sdk) -> None:
    sandbox.phones.unregister(token("gone"))

    sent = await sdk.send(push("here"), push("gone"), {"to": "no token at all"})

    assert [ticket["status"] for ticket in sent["tickets"]] == ["ok", "error", "error"]
    assert [ticket["details"]["error"] for ticket in sent["tickets"][1:]] == ["DeviceNotRegistered"] * 2
