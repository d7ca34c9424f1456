"""The variables of the galaxy document, as they stand there, and the settings that Tocsin has by them."""

from pathlib import Path
from typing import Any

import pytest

from tocsin.cli.run.serve import _named_by
from tocsin.domain.delivery.backoff import delay, parse_backoff
from tocsin.domain.errors import SettingsError
from tocsin.profiles import values
from tocsin.profiles.galaxy_variables import DEPRECATED, VARIABLES
from tocsin.profiles.profile import read_profile
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings
from tocsin.store.pool import unreachable

REQUIRED = {
    "NOTIFICATION_REDIS_MASTER_ADDR": "redis.example:6379",
    "NOTIFICATION_REDIS_PASSWORD": "p@ss/word",
    "NOTIFICATION_POSTGRES_PRIMARY_DSN": "postgres://galaxy:secret@db.example/galaxy?sslmode=disable",
    "NOTIFICATION_USER_SERVICE_BASE_URL": "http://users.example:8080",
}
DOCUMENTED = {
    "INTERNAL_HTTP_ADDR": ":8092",
    "INTERNAL_HTTP_READ_HEADER_TIMEOUT": "2s",
    "INTERNAL_HTTP_READ_TIMEOUT": "10s",
    "INTERNAL_HTTP_IDLE_TIMEOUT": "1m",
    "INTENTS_STREAM": "notification:intents",
    "INTENTS_READ_BLOCK_TIMEOUT": "2s",
    "GATEWAY_CLIENT_EVENTS_STREAM": "gateway:client-events",
    "GATEWAY_CLIENT_EVENTS_STREAM_MAX_LEN": "1024",
    "MAIL_DELIVERY_COMMANDS_STREAM": "mail:delivery_commands",
    "PUSH_RETRY_MAX_ATTEMPTS": "3",
    "EMAIL_RETRY_MAX_ATTEMPTS": "7",
    "ROUTE_BACKOFF_MIN": "1s",
    "ROUTE_BACKOFF_MAX": "5m",
    "ROUTE_LEASE_TTL": "5s",
    "IDEMPOTENCY_TTL": "168h",
    "RECORD_RETENTION": "720h",
    "MALFORMED_INTENT_RETENTION": "2160h",
    "CLEANUP_INTERVAL": "1h",
    "USER_SERVICE_TIMEOUT": "1s",
}
"""The defaults that the document states."""
WITHOUT_DEFAULT = {
    *(name.removeprefix("NOTIFICATION_") for name in REQUIRED),
    "SHUTDOWN_TIMEOUT",
    "LOG_LEVEL",
    "REDIS_REPLICA_ADDRS",
    "REDIS_DB",
    "REDIS_OPERATION_TIMEOUT",
    "POSTGRES_REPLICA_DSNS",
    "POSTGRES_OPERATION_TIMEOUT",
    "POSTGRES_MAX_OPEN_CONNS",
    "POSTGRES_MAX_IDLE_CONNS",
    "POSTGRES_CONN_MAX_LIFETIME",
    "ADMIN_EMAILS_GEO_REVIEW_RECOMMENDED",
    "ADMIN_EMAILS_GAME_GENERATION_FAILED",
    "ADMIN_EMAILS_LOBBY_RUNTIME_PAUSED_AFTER_START",
    "ADMIN_EMAILS_LOBBY_APPLICATION_SUBMITTED",
    "OTEL_STDOUT_TRACES_ENABLED",
    "OTEL_STDOUT_METRICS_ENABLED",
}


def _load(**variables: str) -> Settings:
    given = {
        f"NOTIFICATION_{name}": value for name, value in variables.items() if not name.startswith("TOCSIN")
    }
    own = {name: value for name, value in variables.items() if name.startswith("TOCSIN")}
    return load_settings({"TOCSIN_PROFILE": "galaxy", **REQUIRED, **given, **own})


def _faults(environ: dict[str, str]) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load_settings({"TOCSIN_PROFILE": "galaxy", **environ})
    return {fault.field: fault.message for fault in caught.value.faults}


def test_every_variable_of_the_document_is_read_with_its_default() -> None:
    defaults = {each.name: each.default for each in VARIABLES if not each.required}

    assert {each.name for each in VARIABLES} == DOCUMENTED.keys() | WITHOUT_DEFAULT
    assert {name: defaults[name] for name in DOCUMENTED} == DOCUMENTED
    assert {f"NOTIFICATION_{each.name}" for each in VARIABLES if each.required} == REQUIRED.keys()


def test_the_required_variables_are_enough() -> None:
    settings: Any = _load()

    assert settings.redis.url == "redis://:p%40ss%2Fword@redis.example:6379/0"
    assert settings.database_url == REQUIRED["NOTIFICATION_POSTGRES_PRIMARY_DSN"]
    assert (settings.schema, settings.quiet_hours.enabled) == ("notification", False)
    assert (settings.probes.host, settings.probes.port, settings.probes.header_seconds) == (
        "0.0.0.0",
        8092,
        2,
    )
    stream = settings.streams["galaxy"]
    assert (stream.stream, stream.block_seconds) == ("notification:intents", 2)
    assert (settings.directory.kind, settings.directory.url) == ("http", "http://users.example:8080")
    assert settings.directory.timeout == 1
    gateway, mail = settings.gateway_stream, settings.mail_stream
    assert (gateway.enabled, gateway.stream, gateway.max_len) == (True, "gateway:client-events", 1024)
    assert (mail.enabled, mail.stream) == (True, "mail:delivery_commands")
    assert settings.dispatch.lease_seconds == 5
    retention = settings.retention
    assert (retention.days, retention.refused_days, retention.idempotency_days) == (30, 90, 7)
    assert retention.schedule == "0 * * * *"
    assert settings.catalog.name == "catalog"
    assert gateway.tables.endswith("/tables")


def test_retries_are_those_of_the_document() -> None:
    policies = _load().delivery.policies

    assert (policies.attempts["push"], policies.attempts["email"]) == (3, 7)
    delays = [delay(policies.backoff, attempt, 0.9).total_seconds() for attempt in range(1, 11)]
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert policies.recovery_after("push", 3) is None


def test_what_is_set_is_used() -> None:
    settings: Any = _load(
        REDIS_MASTER_ADDR="[::1]:7000",
        REDIS_DB="3",
        REDIS_OPERATION_TIMEOUT="250ms",
        POSTGRES_OPERATION_TIMEOUT="1m30s",
        POSTGRES_MAX_OPEN_CONNS="25",
        INTERNAL_HTTP_ADDR="127.0.0.1:0",
        INTENTS_READ_BLOCK_TIMEOUT="8s",
        PUSH_RETRY_MAX_ATTEMPTS="1",
        ROUTE_BACKOFF_MIN="1500ms",
        ROUTE_BACKOFF_MAX="1h",
        RECORD_RETENTION="36h",
        CLEANUP_INTERVAL="25m",
        LOG_LEVEL="WARN",
        SHUTDOWN_TIMEOUT="7s",
        ADMIN_EMAILS_GEO_REVIEW_RECOMMENDED="ada@example.com, grace@example.com",
    )

    assert settings.redis.url == "redis://:p%40ss%2Fword@[::1]:7000/3"
    assert (settings.redis.timeout, settings.mail_stream.timeout) == (0.25, 0.25)
    assert (settings.pool.command_timeout, settings.pool.size) == (90, 25)
    assert (settings.probes.host, settings.probes.port) == ("127.0.0.1", 0)
    stream = settings.streams["galaxy"]
    assert (stream.block_seconds, stream.lease_seconds) == (8, 12)
    assert settings.delivery.channel_attempts == {"push": 1, "email": 7}
    assert parse_backoff(settings.delivery.backoff) == parse_backoff("exponential(1500ms, 1h, 2, 0)")
    assert (settings.retention.days, settings.retention.schedule) == (1.5, "*/20 * * * *")
    assert (settings.log.level, settings.dispatch.stop_seconds) == ("warning", 7)
    assert settings.admin_emails == {"geo.review_recommended": ["ada@example.com", "grace@example.com"]}


def test_a_variable_of_tocsin_wins_and_a_file_stands_below(tmp_path: Path) -> None:
    file = tmp_path / "tocsin.toml"
    file.write_text(
        'schema = "of_file"\n[dispatch]\nlease_seconds = 30\nstop_seconds = 9\n[redis]\nurl = "redis://file"\n'
    )

    settings = _load(
        ROUTE_LEASE_TTL="20s",
        TOCSIN_CONFIG=str(file),
        TOCSIN_LOG__LEVEL="error",
        TOCSIN_REDIS__URL="rediss://own",
    )

    assert settings.schema == "of_file"
    assert (settings.dispatch.lease_seconds, settings.dispatch.stop_seconds) == (20, 9)
    assert (settings.log.level, settings.redis.url) == ("error", "rediss://own")


def test_every_fault_is_listed_at_once_without_a_secret() -> None:
    faults = _faults(
        {
            "NOTIFICATION_REDIS_MASTER_ADDR": "hunter2@redis",
            "NOTIFICATION_REDIS_PASSWORD": "",
            "NOTIFICATION_POSTGRES_REPLICA_DSNS": "postgres://a/b,mysql://hunter2@db",
            "NOTIFICATION_ROUTE_LEASE_TTL": "5",
            "NOTIFICATION_PUSH_RETRY_MAX_ATTEMPTS": "three",
            "NOTIFICATION_LOG_LEVEL": "loud",
            "NOTIFICATION_ADMIN_EMAILS_GEO_REVIEW_RECOMMENDED": "nobody",
            "NOTIFICATION_PUSH_RETRY_ATTEMPTS": "3",
            "NOTIFICATION_OTEL_STDOUT_TRACES_ENABLED": "yes",
            "TOCSIN_HTTP__PROT": "1",
            **{f"NOTIFICATION_{name}": "1" for name in DEPRECATED},
        }
    )

    assert faults.keys() == {
        *REQUIRED,
        *(f"NOTIFICATION_{name}" for name in DEPRECATED),
        "NOTIFICATION_POSTGRES_REPLICA_DSNS",
        "NOTIFICATION_ROUTE_LEASE_TTL",
        "NOTIFICATION_PUSH_RETRY_MAX_ATTEMPTS",
        "NOTIFICATION_LOG_LEVEL",
        "NOTIFICATION_ADMIN_EMAILS_GEO_REVIEW_RECOMMENDED",
        "NOTIFICATION_PUSH_RETRY_ATTEMPTS",
        "NOTIFICATION_OTEL_STDOUT_TRACES_ENABLED",
        "http.prot (TOCSIN_HTTP__PROT)",
    }
    assert "did you mean NOTIFICATION_PUSH_RETRY_MAX_ATTEMPTS?" in faults["NOTIFICATION_PUSH_RETRY_ATTEMPTS"]
    assert "NOTIFICATION_REDIS_MASTER_ADDR" in faults["NOTIFICATION_REDIS_ADDR"]
    assert "NOTIFICATION_RECORD_RETENTION" in faults["NOTIFICATION_RECORD_TTL"]
    assert "NOTIFICATION_RECORD_RETENTION" in faults["NOTIFICATION_DEAD_LETTER_TTL"]
    assert "hunter2" not in str(faults)


def test_what_contradicts_is_listed_beside_what_is_unknown_or_cannot_be_parsed() -> None:
    faults = _faults(
        {
            **REQUIRED,
            "NOTIFICATION_FOO": "1",
            "NOTIFICATION_LOG_LEVEL": "loud",
            "NOTIFICATION_REDIS_DB": "first",
            "NOTIFICATION_POSTGRES_PRIMARY_DSN": "host=db",
            "NOTIFICATION_USER_SERVICE_BASE_URL": "users",
            "NOTIFICATION_ROUTE_BACKOFF_MIN": "10m",
            "NOTIFICATION_ROUTE_LEASE_TTL": "1s",
            "NOTIFICATION_POSTGRES_MAX_OPEN_CONNS": "0",
        }
    )

    assert faults.keys() == {
        "NOTIFICATION_FOO",
        "NOTIFICATION_LOG_LEVEL",
        "NOTIFICATION_REDIS_DB",
        "NOTIFICATION_POSTGRES_PRIMARY_DSN (database_url)",
        "NOTIFICATION_USER_SERVICE_BASE_URL (directory.url)",
        "NOTIFICATION_ROUTE_BACKOFF_MIN, NOTIFICATION_ROUTE_BACKOFF_MAX (delivery.backoff)",
        "NOTIFICATION_ROUTE_LEASE_TTL (dispatch.lease_seconds)",
        "NOTIFICATION_POSTGRES_MAX_OPEN_CONNS (pool.size)",
    }
    lease = faults["NOTIFICATION_ROUTE_LEASE_TTL (dispatch.lease_seconds)"]
    assert "timeout (NOTIFICATION_REDIS_OPERATION_TIMEOUT) = 1 " in lease


def test_what_only_a_value_that_cannot_be_parsed_would_contradict_is_not_listed() -> None:
    """Whether the lease is too short, nobody knows without the time-out."""
    faults = _faults(
        {
            **REQUIRED,
            "NOTIFICATION_ROUTE_LEASE_TTL": "1s",
            "NOTIFICATION_REDIS_OPERATION_TIMEOUT": "brief",
            "NOTIFICATION_REDIS_PASSWORD": "",
        }
    )

    assert faults.keys() == {"NOTIFICATION_REDIS_OPERATION_TIMEOUT", "NOTIFICATION_REDIS_PASSWORD"}


def test_a_database_that_is_away_is_reported_by_the_variable_without_another_one_to_use() -> None:
    profile = read_profile({"TOCSIN_PROFILE": "galaxy", **REQUIRED})

    assert profile
    with pytest.raises(SettingsError) as caught, _named_by(profile, "database_url"):
        raise unreachable(ConnectionRefusedError())
    (fault,) = caught.value.faults
    assert fault.field == "NOTIFICATION_POSTGRES_PRIMARY_DSN (database_url)"
    assert fault.message.endswith("Check NOTIFICATION_POSTGRES_PRIMARY_DSN and that the server runs.")


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("PUSH_RETRY_MAX_ATTEMPTS", "0", "NOTIFICATION_PUSH_RETRY_MAX_ATTEMPTS"),
        ("POSTGRES_MAX_OPEN_CONNS", "0", "NOTIFICATION_POSTGRES_MAX_OPEN_CONNS (pool.size)"),
        ("ROUTE_BACKOFF_MIN", "10m", "NOTIFICATION_ROUTE_BACKOFF_MIN, NOTIFICATION_ROUTE_BACKOFF_MAX"),
        ("ROUTE_LEASE_TTL", "1s", "NOTIFICATION_ROUTE_LEASE_TTL (dispatch.lease_seconds)"),
        ("POSTGRES_PRIMARY_DSN", "host=db", "NOTIFICATION_POSTGRES_PRIMARY_DSN (database_url)"),
        ("USER_SERVICE_BASE_URL", "users", "NOTIFICATION_USER_SERVICE_BASE_URL (directory.url)"),
        ("INTENTS_READ_BLOCK_TIMEOUT", "1h", "NOTIFICATION_INTENTS_READ_BLOCK_TIMEOUT"),
    ],
)
def test_a_value_that_tocsin_cannot_use_is_refused_by_the_name_of_its_variable(
    variable: str, value: str, shown: str
) -> None:
    faults = _faults({**REQUIRED, f"NOTIFICATION_{variable}": value})

    assert any(field.startswith(shown) for field in faults), faults


@pytest.mark.parametrize(
    ("given", "shown", "holder"),
    [
        (
            {"INTENTS_STREAM": "gateway:client-events"},
            "NOTIFICATION_INTENTS_STREAM",
            "gateway_stream.stream (NOTIFICATION_GATEWAY_CLIENT_EVENTS_STREAM)",
        ),
        (
            {"INTENTS_STREAM": "mine", "MAIL_DELIVERY_COMMANDS_STREAM": "mine"},
            "NOTIFICATION_INTENTS_STREAM",
            "mail_stream.stream (NOTIFICATION_MAIL_DELIVERY_COMMANDS_STREAM)",
        ),
    ],
)
def test_streams_that_collide_are_shown_by_the_variables_that_set_them(
    given: dict[str, str], shown: str, holder: str
) -> None:
    faults = _faults({**REQUIRED, **{f"NOTIFICATION_{name}": value for name, value in given.items()}})
    ((field, message),) = faults.items()
    assert field.startswith(f"{shown} (streams.")
    assert f"is {holder} too, on the same Redis" in message


def test_standard_output_is_an_exporter_and_the_only_one() -> None:
    chosen = {"TOCSIN_PROFILE": "galaxy", **REQUIRED, "NOTIFICATION_OTEL_STDOUT_METRICS_ENABLED": "true"}

    profile = read_profile(chosen)

    assert profile
    assert profile.environment == {"OTEL_METRICS_EXPORTER": "console"}
    assert _faults({**chosen, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector"}).keys() == {
        "NOTIFICATION_OTEL_STDOUT_METRICS_ENABLED"
    }


def test_variables_without_effect_are_checked_and_listed() -> None:
    profile = read_profile(
        {
            "TOCSIN_PROFILE": "galaxy",
            **REQUIRED,
            "NOTIFICATION_REDIS_REPLICA_ADDRS": "a:1, b:2",
            "NOTIFICATION_POSTGRES_MAX_IDLE_CONNS": "5",
        }
    )

    assert profile
    assert profile.faults == ()
    assert profile.unused == ("NOTIFICATION_REDIS_REPLICA_ADDRS", "NOTIFICATION_POSTGRES_MAX_IDLE_CONNS")


def test_a_profile_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsError, match="there is no profile 'nebula'; there is: galaxy"):
        load_settings({"TOCSIN_PROFILE": "nebula"})


def test_without_a_catalog_the_start_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tocsin.profiles.galaxy._SOURCE_TREE", tmp_path)

    assert "catalog (TOCSIN_CATALOG)" in _faults(REQUIRED)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2s", 2),
        ("1m30s", 90),
        ("168h", 604_800),
        ("1.5h", 5_400),
        (".5s", 0.5),
        ("100ms", 0.1),
        ("3us", 3e-6),
    ],
)
def test_durations_of_go_are_parsed(written: str, seconds: float) -> None:
    assert values.duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["", "5", "0s", "-1s", "1d", "1h 30m", "s", "1e3s", "٣s", "9" * 40 + "h"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer than 0"):
        values.duration(written)


@pytest.mark.parametrize(
    ("interval", "schedule"),
    [
        ("10s", "*/1 * * * *"),
        ("45m", "*/30 * * * *"),
        ("90m", "0 * * * *"),
        ("5h", "0 */4 * * *"),
        ("48h", "0 0 * * *"),
    ],
)
def test_cleanup_is_rounded_down_to_a_schedule(interval: str, schedule: str) -> None:
    assert _load(CLEANUP_INTERVAL=interval).retention.schedule == schedule
