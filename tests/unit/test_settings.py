import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tocsin.domain.errors import SettingsError
from tocsin.domain.retention import cutoffs
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.settings.build import setting_name
from tocsin.settings.load import default_data_dir, load_settings
from tocsin.settings.tree import providers_in_use

SECRET = "a secret of at least thirty-two bytes"


def _faults(environ: dict[str, str], file: Path | None = None) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, file)
    return {fault.field: fault.message for fault in caught.value.faults}


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "tocsin.toml"


def test_without_anything_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    settings = load_settings({"PATH": "/usr/bin", "TOCSIN_TEST_DATABASE_URL": "postgresql://tests"})

    assert settings == type(settings)()
    assert not providers_in_use(settings)


def test_the_file_in_the_current_folder_is_read(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml.write_text("workers = 3\n[http]\nport = 9000\n")
    monkeypatch.chdir(toml.parent)

    settings = load_settings({})

    assert (settings.workers, settings.http.port) == (3, 9000)


def test_a_variable_goes_before_the_file(toml: Path) -> None:
    toml.write_text("workers = 3\n[http]\nport = 9000\nhost = '::1'\n[fcm]\ntimeout = 3\n")

    settings = load_settings(
        {"TOCSIN_CONFIG": str(toml), "TOCSIN_HTTP__PORT": "0", "TOCSIN_FCM__TIMEOUT": "1.5"}
    )

    assert (settings.workers, settings.http.port, settings.http.host) == (3, 0, "::1")
    assert settings.provider(FcmSettings).timeout == 1.5


def test_a_variable_may_name_a_path_a_list_and_a_home(toml: Path) -> None:
    toml.write_text("[admin_emails]\nlow_stock = ['a@shop.example']\n")

    settings = load_settings(
        {
            "TOCSIN_DATA_DIR": "~/tocsin",
            "TOCSIN_ADMIN_EMAILS__NEW_CUSTOMER": "b@shop.example, c@shop.example",
        },
        toml,
    )

    assert settings.data_dir == Path.home() / "tocsin"
    assert settings.admin_emails == {
        "low_stock": ["a@shop.example"],
        "new_customer": ["b@shop.example", "c@shop.example"],
    }


@pytest.mark.parametrize(
    ("file", "variables", "expected"),
    [
        ('"geo.review-due" = ["a@shop.example"]', {}, {"geo.review-due": ["a@shop.example"]}),
        ('geo.review_due = ["a@shop.example"]', {}, {"geo.review_due": ["a@shop.example"]}),
        ("", {"GEO_REVIEW_DUE": "b@shop.example"}, {"geo_review_due": ["b@shop.example"]}),
        ("", {"GEO__REVIEW_DUE": "b@shop.example"}, {"geo.review_due": ["b@shop.example"]}),
        (
            'geo.review_due = ["a@shop.example"]\nlow_stock = ["a@shop.example"]',
            {"GEO_REVIEW_DUE": "b@shop.example"},
            {"geo_review_due": ["b@shop.example"], "low_stock": ["a@shop.example"]},
        ),
        ('"geo.review_due" = ["a@shop.example"]', {"GEO__REVIEW_DUE": ""}, {"geo.review_due": []}),
        ('"geo.review-due" = ["a@shop.example"]', {"GEO_REVIEW_DUE": ""}, {"geo_review_due": []}),
    ],
)
def test_the_administrators_of_a_type_with_dots_can_be_set(
    toml: Path, file: str, variables: dict[str, str], expected: dict[str, list[str]]
) -> None:
    toml.write_text(f"[admin_emails]\n{file}\n")
    environ = {f"TOCSIN_ADMIN_EMAILS__{name}": value for name, value in variables.items()}

    assert load_settings(environ, toml).admin_emails == expected


@pytest.mark.parametrize(
    ("variable", "value", "field", "message"),
    [
        ("TOCSIN_WORKERS", "many", "workers (TOCSIN_WORKERS)", "Expected int"),
        ("TOCSIN_WORKERS", "0", "workers (TOCSIN_WORKERS)", ">= 1"),
        ("TOCSIN_HTTP__PORT", "8o8o", "http.port (TOCSIN_HTTP__PORT)", "Expected int"),
        ("TOCSIN_HTTP__PORT", "70000", "http.port (TOCSIN_HTTP__PORT)", "Expected int <= 65535"),
        (
            "TOCSIN_LOG__LEVEL",
            "loud",
            "log.level (TOCSIN_LOG__LEVEL)",
            "Invalid enum value 'loud'; it must be one of debug, error, info, warning",
        ),
        (
            "TOCSIN_OUTBOXES__SHOP__TOPIC_ARN",
            "notify",
            "outboxes.shop.topic_arn (TOCSIN_OUTBOXES__SHOP__TOPIC_ARN)",
            "must be such as arn:aws:sns:eu-west-1:123456789012:notify.fifo",
        ),
        ("TOCSIN_DATA_DIR", "", "data_dir (TOCSIN_DATA_DIR)", "path"),
        ("TOCSIN_SCHEMA", "My Schema", "schema (TOCSIN_SCHEMA)", "must be lower-case letters"),
        ("TOCSIN_CATALOG", "/no/such/folder", "catalog (TOCSIN_CATALOG)", "is not a folder"),
        ("TOCSIN_HTTP", "8080", "http (TOCSIN_HTTP)", "must be a section"),
        ("TOCSIN_FCM__BASE_URL", "fcm.example", "fcm.base_url (TOCSIN_FCM__BASE_URL)", "https://"),
        (
            "TOCSIN_FCM__CREDENTIALS_FILE",
            "/no/such/file",
            "fcm.credentials_file (TOCSIN_FCM__CREDENTIALS_FILE)",
            "/no/such/file is not a file",
        ),
        (
            "TOCSIN_ADMIN_EMAILS__NEW_CUSTOMER",
            "nobody",
            "admin_emails (TOCSIN_ADMIN_EMAILS)",
            "Expected str matching regex",
        ),
    ],
    ids=str,
)
def test_a_wrong_value_is_named(variable: str, value: str, field: str, message: str) -> None:
    assert message in _faults({variable: value})[field]


def test_a_value_of_a_wrong_type_in_the_file_is_named(toml: Path) -> None:
    toml.write_text("workers = '3'\n[http]\nport = 'http'\n[fcm]\ntimeout = true\n")

    assert set(_faults({}, toml)) == {
        "workers (TOCSIN_WORKERS)",
        "http.port (TOCSIN_HTTP__PORT)",
        "fcm.timeout (TOCSIN_FCM__TIMEOUT)",
    }


@pytest.mark.parametrize(
    ("variable", "field", "meant"),
    [
        ("TOCSIN_WORKER", "worker (TOCSIN_WORKER)", "; did you mean workers (TOCSIN_WORKERS)?"),
        (
            "TOCSIN_HTTP__PROT",
            "http.prot (TOCSIN_HTTP__PROT)",
            "; did you mean http.port (TOCSIN_HTTP__PORT)?",
        ),
        ("TOCSIN_COLOUR", "colour (TOCSIN_COLOUR)", ""),
    ],
)
def test_an_unknown_name_is_told_with_a_near_one(variable: str, field: str, meant: str) -> None:
    assert _faults({variable: "1"}) == {field: f"there is no such setting{meant}"}


def test_a_setting_below_another_is_unknown() -> None:
    assert "WORKERS" in next(iter(_faults({"TOCSIN_WORKERS": "1", "TOCSIN_WORKERS__NUMBER": "2"})))


def test_a_lease_shorter_than_a_send_is_a_contradiction() -> None:
    [(field, message)] = _faults(
        {
            "TOCSIN_EXPO__ENABLED": "true",
            "TOCSIN_EXPO__TIMEOUT": "10",
            "TOCSIN_DISPATCH__LEASE_SECONDS": "20",
        }
    ).items()

    assert field == "dispatch.lease_seconds (TOCSIN_DISPATCH__LEASE_SECONDS)"
    assert "must be at least" in message
    assert "expo.timeout (TOCSIN_EXPO__TIMEOUT) = 10" in message
    long_enough = load_settings({"TOCSIN_EXPO__ENABLED": "true", "TOCSIN_DISPATCH__LEASE_SECONDS": "25"})
    assert long_enough.dispatch.lease_seconds == 25


def test_every_fault_is_named_at_once(toml: Path) -> None:
    toml.write_text("colour = 'red'\n[dispatch]\npoll_seconds = 0\n")

    faults = _faults({"TOCSIN_WORKERS": "none", "TOCSIN_HTTP__PORT": "x"}, toml)

    assert set(faults) == {
        "colour (TOCSIN_COLOUR)",
        "dispatch.poll_seconds (TOCSIN_DISPATCH__POLL_SECONDS)",
        "workers (TOCSIN_WORKERS)",
        "http.port (TOCSIN_HTTP__PORT)",
    }


@pytest.mark.parametrize("provider", ["fcm", "apns", "expo", "webpush", "smtp", "webhook"])
def test_certificates_that_are_not_there_are_named_before_anything_starts(
    provider: str, tmp_path: Path
) -> None:
    missing = tmp_path / "ca.pem"
    environ = {
        "TOCSIN_WEBPUSH__ENABLED": "true",
        "TOCSIN_WEBPUSH__SUBJECT": "mailto:ops@shop.example",
        "TOCSIN_SMTP__HOST": "mail.shop.example",
        "TOCSIN_SMTP__SENDER": "notify@shop.example",
    }

    faults = _faults(environ | {f"TOCSIN_{provider.upper()}__CA_FILE": str(missing)})

    assert faults == {setting_name((provider, "ca_file")): f"{missing} is not a file"}


def test_a_port_for_tls_alone_does_not_begin_in_plain_text() -> None:
    environ = {
        "TOCSIN_SMTP__HOST": "mail.shop.example",
        "TOCSIN_SMTP__SENDER": "notify@shop.example",
        "TOCSIN_SMTP__PORT": "465",
    }

    assert "must be 'tls' with smtp.port 465" in _faults(environ)[setting_name(("smtp", "security"))]
    assert load_settings(environ | {"TOCSIN_SMTP__SECURITY": "tls"}).provider(SmtpSettings).port == 465


def test_every_contradiction_is_named_at_once() -> None:
    faults = _faults(
        {
            "TOCSIN_AUTH__JWT_SECRET": "short",
            "TOCSIN_SCHEMA": "1",
            "TOCSIN_EXPO__ENABLED": "true",
            "TOCSIN_DISPATCH__LEASE_SECONDS": "1",
        }
    )

    assert set(faults) == {
        "auth.jwt_secret (TOCSIN_AUTH__JWT_SECRET)",
        "schema (TOCSIN_SCHEMA)",
        "dispatch.lease_seconds (TOCSIN_DISPATCH__LEASE_SECONDS)",
    }


@pytest.mark.parametrize("content", [b"workers = = 3", b"\xff\xfe"], ids=["not TOML", "not text"])
def test_a_file_that_cannot_be_read_is_named(toml: Path, content: bytes) -> None:
    toml.write_bytes(content)

    assert "cannot be read" in _faults({}, toml)[str(toml)]


def test_a_named_file_that_is_missing_is_a_fault(toml: Path) -> None:
    assert "cannot be read" in _faults({"TOCSIN_CONFIG": str(toml)})[str(toml)]


def test_secrets_are_in_no_message_and_no_picture_of_the_settings() -> None:
    settings = load_settings(
        {"TOCSIN_AUTH__JWT_SECRET": SECRET, "TOCSIN_DATABASE_URL": "postgresql://tocsin:hunter2@db/tocsin"}
    )
    with pytest.raises(SettingsError) as caught:
        load_settings({"TOCSIN_AUTH__JWT_SECRET": "too-short-a-secret", "TOCSIN_WORKERS": "none"})
    with pytest.raises(SettingsError) as short:
        load_settings({"TOCSIN_AUTH__JWT_SECRET": "too-short-a-secret"})

    shown = f"{settings!r} {settings} {settings.auth!r} {caught.value!r} {short.value}"
    assert settings.auth.jwt_secret == SECRET
    assert not [secret for secret in (SECRET, "hunter2", "too-short-a-secret") if secret in shown]


def test_attempts_may_differ_by_channel() -> None:
    settings = load_settings(
        {"TOCSIN_DELIVERY__ATTEMPTS": "4", "TOCSIN_DELIVERY__CHANNEL_ATTEMPTS__PUSH": "3"}
    )

    policies = settings.delivery.policies
    assert (policies.attempts_for("push"), policies.attempts_for("email")) == (3, 4)
    unknown = _faults({"TOCSIN_DELIVERY__CHANNEL_ATTEMPTS__FAX": "3"})
    assert "there is no channel fax" in unknown[setting_name(("delivery", "channel_attempts"))]


def test_retention_may_be_parts_of_a_day_by_a_schedule() -> None:
    chosen = {"TOCSIN_RETENTION__DAYS": "1.5", "TOCSIN_RETENTION__SCHEDULE": "*/20 * * * *"}
    now = datetime(2030, 1, 3, tzinfo=UTC)

    assert cutoffs(load_settings(chosen).retention, now).content == datetime(2030, 1, 1, 12, tzinfo=UTC)
    wrong = _faults({"TOCSIN_RETENTION__SCHEDULE": "hourly"})
    assert "not in the notation of cron" in wrong[setting_name(("retention", "schedule"))]


def test_the_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        setattr(load_settings({}), "workers", 2)  # noqa: B010 - the type checker knows better than to try


def test_the_data_lives_where_its_user_may_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir() == Path("/var/lib/tocsin")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data_dir() == Path("/data/tocsin")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_data_dir() == Path.home() / ".local" / "share" / "tocsin"


def test_a_user_without_a_home_is_told_to_set_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for call in ("getuid", "geteuid"):
        monkeypatch.setattr(os, call, lambda: 4_000_000_123)
    with pytest.raises(SettingsError, match="TOCSIN_DATA_DIR"):
        default_data_dir()
