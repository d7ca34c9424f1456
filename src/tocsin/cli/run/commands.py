"""The commands that run a process; what it consists of is imported when it runs."""

from typing import Annotated

import typer

from tocsin.cli.output import AsJson

Lanes = Annotated[
    str | None,
    typer.Option(
        help="The lanes to serve, separated by commas: names of providers, and `fanout`, which at least one "
        "worker must serve. Left out, all."
    ),
]
AsProfile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Run as another service, configured by its own variables: `galaxy` reads NOTIFICATION_*. "
        "TOCSIN_PROFILE does the same for every command.",
    ),
]
Tied = Annotated[bool, typer.Option("--tied", hidden=True)]
Once = Annotated[
    bool, typer.Option("--once", help="End when the queue is drained, or with an error if it cannot be.")
]


def serve(profile: AsProfile = None) -> None:
    """Run everything: database (unless one is set), API, workers, and a relay if it has sources."""
    from tocsin.cli.run import serve as process

    process.serve(profile)


def worker(lanes: Lanes = None, tied: Tied = False) -> None:
    """Run one worker alone."""
    from tocsin.cli.run import serve as process

    process.worker(lanes, tied=tied)


def migrate(as_json: AsJson = False) -> None:
    """Bring the database schema up to date."""
    from tocsin.cli.run import serve as process

    process.migrate(as_json=as_json)


def api(tied: Tied = False) -> None:
    """Run the HTTP API alone."""
    from tocsin.cli.run import api as process

    process.api(tied=tied)


def relay(tied: Tied = False) -> None:
    """Relay the outboxes, streams and queues of applications into Tocsin."""
    from tocsin.cli.run import relay as process

    process.relay(tied=tied)


def gateway(tied: Tied = False) -> None:
    """Send client events from a Redis stream, and people's inboxes, to apps and browsers, live."""
    from tocsin.cli.run import gateway as process

    process.gateway(tied=tied)


def mailer(tied: Tied = False) -> None:
    """Send the mail that other services ask for by commands in a Redis stream."""
    from tocsin.cli.run import mailer as process

    process.mailer(tied=tied)


def archive(once: Once = False, as_json: AsJson = False) -> None:
    """Write the messages of an SQS queue to files, on disk or S3.

    A file has the messages of an hour, one JSON object on each line, compressed by zstd. Messages are deleted
    from the queue when their file is durable.
    """
    from tocsin.cli.run import archive as process

    process.archive(once=once, as_json=as_json)
