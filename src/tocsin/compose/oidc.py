"""The files that signing in with OpenID Connect needs; only the API has to be able to read them."""

from tocsin.api.auth.oidc.settings import OidcSettings
from tocsin.domain.errors import ProviderSetupError, SettingsError
from tocsin.domain.faults import Fault
from tocsin.providers.http.ca_file import read_ca_file
from tocsin.settings.build import setting_name


def checked_oidc(settings: OidcSettings) -> OidcSettings:
    """Return the settings; raise SettingsError if a file of theirs cannot be used."""
    from tocsin.api.auth.oidc.client import read_secret  # noqa: PLC0415 - imports the HTTP client

    faults = []
    if settings.client_secret_file is not None:
        try:
            read_secret(settings.client_secret_file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is empty or not a text"
            faults.append(_fault("client_secret_file", f"cannot be used: {reason}"))
    try:
        read_ca_file(settings.ca_file)
    except ProviderSetupError as error:
        faults.append(_fault("ca_file", f"cannot be used: {error}"))
    if faults:
        raise SettingsError("The settings cannot be used:", faults)
    return settings


def _fault(name: str, message: str) -> Fault:
    return Fault(field=setting_name(("oidc", name)), code="unusable", message=message)
