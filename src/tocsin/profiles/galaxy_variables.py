"""The variables of the profile `galaxy`, and what each means for Tocsin."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tocsin.profiles import values
from tocsin.store.pool import url_fault

PREFIX = "NOTIFICATION_"
_HOUR, _DAY = 60, 1_440

FIXED: Mapping[str, Any] = {
    "schema": "notification",
    "quiet_hours.enabled": False,
    # After its last attempt a route is a dead letter.
    "delivery.recover_for_days": 0,
    "directory.kind": "http",
    "gateway_stream.enabled": True,
    "mail_stream.enabled": True,
    "metrics.names": "galaxy",
}
"""What the service does without a variable for it."""


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of the service.

    `settings` are the settings of Tocsin that it decides, alone or with others; without any it is checked and
    has no effect. `default` is the service's own, as it is written; without one Tocsin's holds.
    """

    name: str
    parse: Callable[[str], Any]
    settings: tuple[str, ...] = ()
    default: str | None = None
    required: bool = False
    note: str = ""


def _postgres_addresses(value: str) -> list[str]:
    addresses = values.listed(value)
    for address in addresses:
        if fault := url_fault(address):
            raise ValueError(fault)
    return addresses


def _cleanup_schedule(value: str) -> str:
    """Return the cron schedule of an interval, rounded down to a part of an hour or of a day."""
    minutes = max(1, int(values.duration(value) // 60))
    if minutes < _HOUR:
        every = max(part for part in range(1, minutes + 1) if _HOUR % part == 0)
        return f"*/{every} * * * *"
    hours = max(part for part in range(1, min(minutes, _DAY) // _HOUR + 1) if _DAY // _HOUR % part == 0)
    return "0 * * * *" if hours == 1 else f"0 */{hours} * * *" if hours < _DAY // _HOUR else "0 0 * * *"


VARIABLES: tuple[Variable, ...] = (
    Variable(
        name="SHUTDOWN_TIMEOUT",
        parse=values.duration,
        settings=("dispatch.stop_seconds",),
        note="How long a worker finishes what it has begun.",
    ),
    Variable(
        name="LOG_LEVEL",
        parse=values.level,
        settings=("log.level",),
        note="`debug`, `info`, `warn` or `error`.",
    ),
    Variable(
        name="INTERNAL_HTTP_ADDR",
        parse=values.listen_address,
        settings=("probes.host", "probes.port"),
        default=":8092",
        note="One listener for the whole process tree. Without a host: every interface of IPv4.",
    ),
    Variable(
        name="INTERNAL_HTTP_READ_HEADER_TIMEOUT",
        parse=values.duration,
        settings=("probes.header_seconds",),
        default="2s",
        note="How long the headers of a request may take. An idle connection is closed after it too.",
    ),
    Variable(
        name="INTERNAL_HTTP_READ_TIMEOUT",
        parse=values.duration,
        settings=("probes.header_seconds",),
        default="10s",
        note="The shorter of the two holds: a probe has no body to wait for.",
    ),
    Variable(
        name="INTERNAL_HTTP_IDLE_TIMEOUT",
        parse=values.duration,
        default="1m",
        note="Checked; `NOTIFICATION_INTERNAL_HTTP_READ_HEADER_TIMEOUT` ends idle connections.",
    ),
    Variable(
        name="REDIS_MASTER_ADDR",
        parse=values.server_address,
        settings=("redis.url",),
        required=True,
        note="`host:port`. For TLS or a user name set `TOCSIN_REDIS__URL` besides.",
    ),
    Variable(name="REDIS_PASSWORD", parse=values.text, settings=("redis.url",), required=True),
    Variable(name="REDIS_DB", parse=values.integer, settings=("redis.url",), default="0"),
    Variable(
        name="REDIS_REPLICA_ADDRS",
        parse=values.server_addresses,
        note="Checked; every command goes to the master, which alone has the newest entries.",
    ),
    Variable(
        name="REDIS_OPERATION_TIMEOUT",
        parse=values.duration,
        settings=("redis.timeout", "gateway_stream.timeout", "mail_stream.timeout"),
        default="1s",
        note="The service names no default; this one fits a lease of 5 s.",
    ),
    Variable(
        name="POSTGRES_PRIMARY_DSN",
        parse=values.text,
        settings=("database_url",),
        required=True,
        note="`postgres://…` or `postgresql://…`; not the form `host=… user=…`.",
    ),
    Variable(
        name="POSTGRES_REPLICA_DSNS",
        parse=_postgres_addresses,
        note="Checked; everything that is read decides what is written, so it is read from the primary.",
    ),
    Variable(name="POSTGRES_OPERATION_TIMEOUT", parse=values.duration, settings=("pool.command_timeout",)),
    Variable(
        name="POSTGRES_MAX_OPEN_CONNS",
        parse=values.integer,
        settings=("pool.size",),
        note="The most connections of one pool. The relay has one pool and each worker two.",
    ),
    Variable(
        name="POSTGRES_MAX_IDLE_CONNS",
        parse=values.integer,
        note="Checked; a connection that was opened is kept, so that statements stay prepared.",
    ),
    Variable(
        name="POSTGRES_CONN_MAX_LIFETIME",
        parse=values.duration,
        note="Checked; a connection that was opened is kept, so that statements stay prepared.",
    ),
    Variable(
        name="INTENTS_STREAM",
        parse=values.text,
        settings=("streams.galaxy.stream",),
        default="notification:intents",
    ),
    Variable(
        name="INTENTS_READ_BLOCK_TIMEOUT",
        parse=values.duration,
        settings=("streams.galaxy.block_seconds", "streams.galaxy.lease_seconds"),
        default="2s",
        note="The reader's lease is one and a half times as long, and 10 s at least.",
    ),
    Variable(
        name="GATEWAY_CLIENT_EVENTS_STREAM",
        parse=values.text,
        settings=("gateway_stream.stream",),
        default="gateway:client-events",
    ),
    Variable(
        name="GATEWAY_CLIENT_EVENTS_STREAM_MAX_LEN",
        parse=values.integer,
        settings=("gateway_stream.max_len",),
        default="1024",
    ),
    Variable(
        name="MAIL_DELIVERY_COMMANDS_STREAM",
        parse=values.text,
        settings=("mail_stream.stream",),
        default="mail:delivery_commands",
    ),
    Variable(
        name="PUSH_RETRY_MAX_ATTEMPTS",
        parse=values.integer,
        settings=("delivery.channel_attempts.push",),
        default="3",
        note="For types that declare no `attempts`, as those of `examples/galaxy`.",
    ),
    Variable(
        name="EMAIL_RETRY_MAX_ATTEMPTS",
        parse=values.integer,
        settings=("delivery.channel_attempts.email",),
        default="7",
        note="For types that declare no `attempts`, as those of `examples/galaxy`.",
    ),
    Variable(
        name="ROUTE_BACKOFF_MIN",
        parse=values.duration,
        settings=("delivery.backoff",),
        default="1s",
        note="`exponential(min, max, 2, 0)`: doubled after each attempt, without jitter.",
    ),
    Variable(name="ROUTE_BACKOFF_MAX", parse=values.duration, settings=("delivery.backoff",), default="5m"),
    Variable(
        name="ROUTE_LEASE_TTL",
        parse=values.duration,
        settings=("dispatch.lease_seconds",),
        default="5s",
        note="A lease is a column of the delivery, not a key in Redis. It must outlast "
        "`NOTIFICATION_REDIS_OPERATION_TIMEOUT` four times.",
    ),
    Variable(
        name="IDEMPOTENCY_TTL",
        parse=values.days,
        settings=("retention.idempotency_days",),
        default="168h",
        note="Counted from the settlement of the last route. A key is kept as long as its record anyway.",
    ),
    Variable(
        name="RECORD_RETENTION",
        parse=values.days,
        settings=("retention.days",),
        default="720h",
        note="Counted from the settlement of the last route; what still waits is not deleted.",
    ),
    Variable(
        name="MALFORMED_INTENT_RETENTION",
        parse=values.days,
        settings=("retention.refused_days",),
        default="2160h",
    ),
    Variable(
        name="CLEANUP_INTERVAL",
        parse=_cleanup_schedule,
        settings=("retention.schedule",),
        default="1h",
        note="Rounded down to a part of an hour or of a day: `25m` is every 20 minutes, `5h` every 4 hours.",
    ),
    Variable(name="USER_SERVICE_BASE_URL", parse=values.text, settings=("directory.url",), required=True),
    Variable(
        name="USER_SERVICE_TIMEOUT", parse=values.duration, settings=("directory.timeout",), default="1s"
    ),
    *(
        Variable(
            name=f"ADMIN_EMAILS_{type_.replace('.', '_').upper()}",
            parse=values.emails,
            settings=(f"admin_emails.{type_}",),
            note="Mail addresses with commas between. Without any, one skipped route says so.",
        )
        for type_ in (
            "geo.review_recommended",
            "game.generation_failed",
            "lobby.runtime_paused_after_start",
            "lobby.application.submitted",
        )
    ),
    Variable(
        name="OTEL_STDOUT_TRACES_ENABLED",
        parse=values.boolean,
        default="false",
        note="Sets `OTEL_TRACES_EXPORTER=console`; Tocsin exports traces to one place.",
    ),
    Variable(
        name="OTEL_STDOUT_METRICS_ENABLED",
        parse=values.boolean,
        default="false",
        note="Sets `OTEL_METRICS_EXPORTER=console`; Tocsin exports metrics to one place.",
    ),
)

DEPRECATED: Mapping[str, str] = {
    "REDIS_ADDR": "set NOTIFICATION_REDIS_MASTER_ADDR instead",
    "REDIS_USERNAME": "leave it out: NOTIFICATION_REDIS_PASSWORD alone is sent; a user name can stand in "
    "TOCSIN_REDIS__URL",
    "REDIS_TLS_ENABLED": "leave it out; for TLS set TOCSIN_REDIS__URL=rediss://…",
    "DEAD_LETTER_TTL": "set NOTIFICATION_RECORD_RETENTION instead: dead letters are kept with their record",
    "RECORD_TTL": "set NOTIFICATION_RECORD_RETENTION instead",
}
"""The variables that are refused, and what to do."""
