import asyncio
import contextlib
import smtplib
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyreqwest.client import ClientBuilder

from tests.providers.sandboxes import Caller, calling
from tocsin.sandbox import Sandbox, SandboxSettings, SandboxStartError


@contextlib.asynccontextmanager
async def _process(settings: dict[str, Any]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tocsin.sandbox",
        msgspec.json.encode(settings).decode(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def test_a_process_of_its_own_says_where_it_listens_and_stops_when_told(tmp_path: Path) -> None:
    async with _process({"folder": str(tmp_path), "latency": {"min_seconds": 0.001}}) as process:
        assert process.stdout is not None
        addresses = msgspec.json.decode(await process.stdout.readline())
        async with ClientBuilder().build() as client:
            caller = Caller(client, addresses["http_url"])
            faults = (await caller.json("GET", "/_sandbox/faults")).body
    assert faults["latency"] == {"min_seconds": 0.001, "max_seconds": None}
    assert addresses["ca_file"] == str(tmp_path / "ca.pem")
    assert process.returncode == 0


@pytest.mark.parametrize("settings", [{"http_port": -1}, {"colour": "red"}, {"record": "everything"}])
async def test_wrong_settings_stop_the_start(settings: dict[str, Any]) -> None:
    async with _process(settings) as process:
        _, errors = await process.communicate()

    assert process.returncode == 2
    assert next(iter(settings)) in errors.decode()


@pytest.mark.parametrize("listener", ["http_port", "https_port"])
async def test_a_port_in_use_is_named(listener: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(
            SandboxStartError, match=f"cannot listen on 127.0.0.1:{port}.*choose another port"
        ):
            async with Sandbox(msgspec.convert({listener: port}, SandboxSettings)):
                pass


async def test_a_folder_that_keeps_no_keys_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(SandboxStartError, match=f"cannot keep its keys in {file}: .*choose another folder"):
        async with Sandbox(SandboxSettings(folder=file)):
            pass


async def test_two_sandboxes_cannot_share_a_port() -> None:
    async with Sandbox() as first:
        port = int(first.http_url.rpartition(":")[2])
        with pytest.raises(SandboxStartError, match=str(port)):
            async with Sandbox(SandboxSettings(http_port=port)):
                pass


async def test_a_kept_folder_keeps_its_authority_and_accounts(tmp_path: Path) -> None:
    settings = SandboxSettings(folder=tmp_path)
    async with Sandbox(settings) as first:
        authority = first.ca_file.read_bytes()
        account = first.service_account(secure=False)
    async with Sandbox(settings) as second, calling(second, secure=True, authorized=False) as caller:
        assert second.ca_file.read_bytes() == authority
        renewed = msgspec.structs.replace(account, token_uri=f"{second.https_url}/token")
        assert (await caller.authorize(renewed)).status == 200

    assert _modes_of_keys(tmp_path) == {"accounts.key": 0o600, "ca.key": 0o600, "server.key": 0o600}


def _modes_of_keys(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.glob("*.key")}


async def test_a_temporary_folder_goes_with_its_sandbox() -> None:
    async with Sandbox() as sandbox:
        folder = sandbox.ca_file.parent
        assert folder.exists()

    assert not folder.exists()


async def test_a_sandbox_serves_until_its_block_ends() -> None:
    async with Sandbox() as sandbox, calling(sandbox) as caller:
        assert (await caller.send({"token": "a"})).status == 200
        addresses = [
            sandbox.http_url.removeprefix("http://").split(":"),
            sandbox.https_url.removeprefix("https://").split(":"),
            ["127.0.0.1", str(sandbox.smtp_port)],
        ]

    for host, port in addresses:
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await asyncio.open_connection(host, int(port))


async def test_an_outage_of_mail_answers_421_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The process runs on uvloop, whose transports are of no class of asyncio."""
    async with _process({"folder": str(tmp_path)}) as process:
        assert process.stdout is not None
        addresses = msgspec.json.decode(await process.stdout.readline())
        async with ClientBuilder().build() as client:
            caller = Caller(client, addresses["http_url"])
            assert (await caller.json("PUT", "/_sandbox/faults/outage?provider=smtp", {})).status == 200
            reader, writer = await asyncio.open_connection("127.0.0.1", addresses["smtp_port"])
            greeting = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            stats = (await caller.json("GET", "/_sandbox/stats?provider=smtp")).body
    assert greeting.startswith(b"421 4.3.2")
    assert stats["answers"] == {"421 4.3.2": 1}


async def test_a_connection_that_is_cut_ends_in_a_process_of_its_own(tmp_path: Path) -> None:
    async with _process({"folder": str(tmp_path)}) as process:
        assert process.stdout is not None
        addresses = msgspec.json.decode(await process.stdout.readline())
        async with ClientBuilder().build() as client:
            caller = Caller(client, addresses["http_url"])
            script = {"steps": [{"kind": "cut"}]}
            path = "/_sandbox/faults/targets/ada@example.org?provider=smtp"
            assert (await caller.json("PUT", path, script)).status == 200

        def session() -> None:
            with smtplib.SMTP("127.0.0.1", addresses["smtp_port"], timeout=5) as server:
                server.sendmail("notify@acme.example", ["ada@example.org"], b"Subject: Hello\r\n\r\nHi.\r\n")

        with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionError)) as raised:
            await asyncio.to_thread(session)
    assert "timed out" not in str(raised.value)
