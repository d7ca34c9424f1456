"""The settings of signing in with OpenID Connect, and of the dashboard's port: faults by name."""

from pathlib import Path

import pytest

from tocsin.api.auth.oidc.settings import OidcSettings
from tocsin.api.auth.roles import Role
from tocsin.compose.oidc import checked_oidc
from tocsin.domain.errors import SettingsError
from tocsin.settings.load import load_settings

USABLE = {
    "TOCSIN_DASHBOARD__PUBLIC_URL": "https://tocsin.example.com",
    "TOCSIN_OIDC__ISSUER": "https://id.example.com/realms/staff",
    "TOCSIN_OIDC__CLIENT_ID": "tocsin",
    "TOCSIN_OIDC__CLIENT_SECRET": "hidden-secret",
    "TOCSIN_OIDC__ADMINS": "platform, /Ops/Night Shift",
}


def faults(**changes: str | None) -> dict[str, str]:
    """Return the messages by the variable of their setting."""
    environ = {**USABLE, **changes}
    with pytest.raises(SettingsError) as caught:
        load_settings({name: value for name, value in environ.items() if value is not None})
    assert "hidden-secret" not in str(caught.value)
    return {fault.field.partition("(")[2].rstrip(")"): fault.message for fault in caught.value.faults}


def test_variables_are_enough_and_the_secret_is_not_shown() -> None:
    settings = load_settings(USABLE)

    assert settings.oidc.admins == ["platform", "/Ops/Night Shift"]
    assert settings.oidc.client_secret == "hidden-secret"
    assert "hidden-secret" not in repr(settings) + repr(settings.oidc)


def test_people_who_sign_in_may_be_bound_to_no_organisation() -> None:
    unscoped = {"TOCSIN_AUTH__ORG_SCOPING": "true", "TOCSIN_AUTH__UNSCOPED_ROLES": "admin"}

    assert load_settings(USABLE | unscoped).auth.unscoped_roles == [Role.ADMIN]
    with pytest.raises(SettingsError, match=r"auth.role_claim or oidc.issuer"):
        load_settings(unscoped)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TOCSIN_OIDC__ISSUER", "http://id.example.com", "must be an https:// address"),
        ("TOCSIN_OIDC__ISSUER", "https://id.example.com?x=1", "must be an https:// address"),
        ("TOCSIN_OIDC__ISSUER", "https://a:b@id.example.com", "must be an https:// address"),
        ("TOCSIN_OIDC__ISSUER", "https://id.example.com:port", "must be an https:// address"),
        ("TOCSIN_OIDC__CLIENT_ID", None, "is needed with oidc.issuer"),
        ("TOCSIN_OIDC__CLIENT_SECRET_FILE", "/etc/secret", "contradicts oidc.client_secret"),
        ("TOCSIN_OIDC__ADMINS", None, "Nobody could"),
        ("TOCSIN_OIDC__SESSION_HOURS", "25", "Expected float <= 24"),
        ("TOCSIN_OIDC__SCOPES", "two words", "must be such as groups"),
        ("TOCSIN_DASHBOARD__PUBLIC_URL", None, "is needed with oidc.issuer"),
        ("TOCSIN_DASHBOARD__PUBLIC_URL", "http://tocsin.example.com", "must be an origin"),
        ("TOCSIN_DASHBOARD__PUBLIC_URL", "https://example.com/tocsin", "must be an origin"),
        ("TOCSIN_DASHBOARD__PUBLIC_URL", "https://example.com/?a", "must be an origin"),
        ("TOCSIN_DASHBOARD__PUBLIC_URL", "example.com", "must be an origin"),
        ("TOCSIN_DASHBOARD__PORT", "8470", "must be another port than http.port"),
        ("TOCSIN_DASHBOARD__PORT", "70000", "Expected int <= 65535"),
        ("TOCSIN_DASHBOARD__HOST", "0.0.0.0", "has no effect without dashboard.port"),
    ],
)
def test_a_fault_is_named(name: str, value: str | None, message: str) -> None:
    found = faults(**{name: value})

    assert [name] == list(found)
    assert message in found[name]


def test_without_an_issuer_nothing_of_it_has_an_effect() -> None:
    found = faults(TOCSIN_OIDC__ISSUER=None)

    names = {"TOCSIN_OIDC__CLIENT_ID", "TOCSIN_OIDC__CLIENT_SECRET", "TOCSIN_OIDC__ADMINS"}
    assert (set(found), set(found.values())) == (names, {"has no effect without oidc.issuer"})


def test_without_the_dashboard_nobody_signs_in() -> None:
    assert "dashboard.enabled is false" in faults(TOCSIN_DASHBOARD__ENABLED="false")["TOCSIN_OIDC__ISSUER"]


@pytest.mark.parametrize("content", [None, "", " \n", b"\xff"])
def test_the_api_does_not_start_without_its_secret(tmp_path: Path, content: str | bytes | None) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(SettingsError, match=r"TOCSIN_OIDC__CLIENT_SECRET_FILE.*cannot be used"):
        checked_oidc(OidcSettings(client_secret_file=file))


def test_the_api_does_not_start_with_a_ca_file_that_has_no_certificate(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("none")

    with pytest.raises(SettingsError, match=r"TOCSIN_OIDC__CA_FILE.*holds no certificate"):
        checked_oidc(OidcSettings(ca_file=file))
