import string

import asyncpg
import pytest

from tocsin.domain.errors import DatabaseError, DatabaseUnavailableError, SettingsError
from tocsin.ingress.outbox import table
from tocsin.settings.load import load_settings
from tocsin.store import pool
from tocsin.store.pool import PoolSettings, unreachable, url_fault

PASSWORDS = [
    f"{start}{character}cr3t"
    for start in ("s3", "12")
    for character in [*string.punctuation, " ", "\n", "ü", "%2F", "/x=", "?a=", "@/"]
]
SETTINGS = PoolSettings(connect_timeout=2)


@pytest.mark.parametrize("password", PASSWORDS)
async def test_no_error_of_a_connection_quotes_the_password(password: str) -> None:
    url = f"postgresql://tocsin:{password}@127.0.0.1:1/tocsin"

    with pytest.raises(DatabaseError) as own:
        await pool.connect(url, "tocsin", SETTINGS)
    with pytest.raises(DatabaseError) as pooled:
        async with pool.open_pool(url, "tocsin", SETTINGS) as opened, pool.first_connection(opened):
            pass
    with pytest.raises(DatabaseError) as foreign:
        await table.connect(url, SETTINGS)

    for error in (own, pooled, foreign):
        told = str(error.value)
        assert "cr3t" not in told
        assert not any(f"{start}{end}" in told for start in ("s3", "12") for end in ("'", '"', password[2]))


@pytest.mark.parametrize("rest", ["?ss", "/ss", "#ss", "/a?ss", "?a=b", "/a?b=c", "?host=x", "/a?ss&host=x"])
def test_a_user_name_with_an_at_sign_does_not_hide_the_end_of_the_password(rest: str) -> None:
    assert url_fault(f"postgresql://me@corp:12{rest}@db.example/tocsin") is not None
    assert url_fault(f"postgresql://me:12{rest}@db.example/tocsin") is not None


@pytest.mark.parametrize("character", "/?#")
def test_a_setting_with_such_a_password_is_named_with_what_to_do(character: str) -> None:
    url = f"postgresql://tocsin:s3{character}cr3t@db.example/tocsin"
    environ = {
        "TOCSIN_DATABASE_URL": url,
        "TOCSIN_OUTBOXES__SHOP__URL": url,
        "TOCSIN_PERIODIC__DATABASES__CRM": url,
    }

    with pytest.raises(SettingsError) as raised:
        load_settings(environ)

    told = str(raised.value)
    for name in environ:
        assert name in told
    assert "%2F" in told
    assert "cr3t" not in told


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://tocsin:s3%2Fcr3t@db.example:5432/tocsin?sslmode=require",
        "postgres://a.example:1,b.example:2/tocsin",
        "postgresql://tocsin:p@ss@db.example/tocsin",
        "postgresql:///tocsin?host=/run/postgresql",
        "postgresql://tocsin@/tocsin?host=/run/p@th",
        "postgresql://[::1]:5432/tocsin",
    ],
)
def test_what_postgres_itself_takes_has_no_fault(url: str) -> None:
    assert url_fault(url) is None


@pytest.mark.parametrize("error", [asyncpg.InvalidPasswordError, asyncpg.InvalidCatalogNameError])
def test_a_server_that_refuses_is_not_said_to_be_away(error: type[asyncpg.PostgresError]) -> None:
    """No process waits for it to come back."""
    refused, away = unreachable(error("no")), unreachable(ConnectionRefusedError("no"))

    assert "The database cannot be used" in str(refused)
    assert not isinstance(refused, DatabaseUnavailableError)
    assert "The database does not answer" in str(away)
    assert isinstance(away, DatabaseUnavailableError)
