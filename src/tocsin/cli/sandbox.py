"""`tocsin sandbox`."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from tocsin.cli.output import AsJson, console, print_json
from tocsin.cli.process import run_until_stopped
from tocsin.logs import LogSettings, configure_logs
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.sandbox.faults import Latency


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sandbox")(sandbox)


def sandbox(
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    http_port: Annotated[int, typer.Option(help="Plain HTTP; 0 takes a free port.")] = 8481,
    https_port: Annotated[int, typer.Option(help="HTTP/2 over TLS; 0 takes a free port.")] = 8482,
    folder: Annotated[Path, typer.Option(help="Keeps the certificate and the service account.")] = Path(
        ".tocsin/sandbox"
    ),
    latency_ms: Annotated[float, typer.Option(min=0, help="How long every answer takes.")] = 0.0,
    record: Annotated[Literal["messages", "counts"], typer.Option(help="What to remember.")] = "messages",
    as_json: AsJson = False,
) -> None:
    """Stand in for FCM: virtual phones, scripted faults, no account needed."""
    configure_logs(LogSettings())
    settings = SandboxSettings(
        host=host,
        http_port=http_port,
        https_port=https_port,
        folder=folder.resolve(),
        latency=Latency(latency_ms / 1000) if latency_ms else None,
        record=record,
    )

    async def main(stop: asyncio.Event) -> None:
        async with Sandbox(settings) as running:
            account = running.write_service_account(folder.resolve() / "service_account.json")
            _announce(running, account, as_json)
            await stop.wait()

    run_until_stopped(main)


def _announce(running: Sandbox, account: Path, as_json: bool) -> None:
    variables = {
        "TOCSIN_FCM__BASE_URL": running.https_url,
        "TOCSIN_FCM__CA_FILE": str(running.ca_file),
        "TOCSIN_FCM__CREDENTIALS_FILE": str(account),
    }
    if as_json:
        print_json({"http_url": running.http_url, "https_url": running.https_url, "settings": variables})
        return
    console.print(f"The sandbox stands in for FCM at {running.https_url} and {running.http_url}.")
    console.print("Point Tocsin at it:")
    for name, value in variables.items():
        console.print(f"  export {name}={value}", soft_wrap=True)
    console.print(f"What the phones received: {running.http_url}/_sandbox/messages")
    console.print("Ctrl-C stops it.")
