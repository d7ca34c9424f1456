"""`tocsin sandbox`."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from tocsin.cli.output import AsJson, console, print_json


def sandbox(
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    http_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Plain HTTP; 0 takes a free port.")
    ] = 8481,
    https_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="HTTP/2 over TLS; 0 takes a free port.")
    ] = 8482,
    folder: Annotated[Path, typer.Option(help="Keeps the certificate and the keys.")] = Path(
        ".tocsin/sandbox"
    ),
    smtp_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Mail with STARTTLS; 0 takes a free port.")
    ] = 8425,
    latency_ms: Annotated[float, typer.Option(min=0, help="How long every answer takes.")] = 0.0,
    receipts_after: Annotated[
        float, typer.Option(min=0, help="Seconds until Expo has the receipt of a message.")
    ] = 0.0,
    record: Annotated[Literal["messages", "counts"], typer.Option(help="What to remember.")] = "messages",
    as_json: AsJson = False,
) -> None:
    """Stand in for every provider: virtual devices, scripted faults, no account needed."""
    import asyncio

    # A production install has no sandbox, and every other command must run there.
    from tocsin.cli.demo.stand_ins import settings_for
    from tocsin.cli.run.process import run_until_stopped
    from tocsin.logs import LogSettings, configure_logs
    from tocsin.sandbox import Latency, Sandbox, SandboxSettings

    configure_logs(LogSettings())
    settings = SandboxSettings(
        host=host,
        http_port=http_port,
        https_port=https_port,
        smtp_port=smtp_port,
        folder=folder.resolve(),
        latency=Latency(latency_ms / 1000) if latency_ms else None,
        receipts_after_seconds=receipts_after,
        record=record,
    )

    async def main(stop: asyncio.Event) -> None:
        async with Sandbox(settings) as running:
            variables = settings_for(running, folder.resolve())
            _print_addresses(running.http_url, running.https_url, variables, as_json=as_json)
            await stop.wait()

    run_until_stopped(main)


def _print_addresses(http_url: str, https_url: str, variables: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {"http_url": http_url, "https_url": https_url, "page": f"{http_url}/", "settings": variables}
        )
        return
    console.print(
        "The sandbox stands in for FCM, APNs, Expo, Amazon SNS, Web Push, mail and webhooks at\n"
        f"{https_url} and {http_url}."
    )
    console.print("Point Tocsin at it:")
    for name, value in variables.items():
        console.print(f"  export {name}={shlex.quote(value)}", soft_wrap=True, markup=False)
    console.print(f"What arrives, live: {http_url}/")
    console.print("Ctrl-C stops it.")
