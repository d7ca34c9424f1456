"""The settings that point Tocsin at the stand-ins of a sandbox."""

from collections.abc import Mapping
from pathlib import Path

from tocsin.providers.registry import load_registry
from tocsin.sandbox import Sandbox
from tocsin.sandbox.smtp.server import PASSWORD, USERNAME
from tocsin.settings.build import PREFIX


def settings_for(sandbox: Sandbox, folder: Path) -> Mapping[str, str]:
    """Write the key files into a folder and return the variables that point Tocsin at the sandbox."""
    facts = {
        "https_url": sandbox.https_url,
        "host": sandbox.settings.host,
        "ca_file": sandbox.ca_file,
        "service_account_file": sandbox.write_service_account(folder / "service_account.json"),
        "apns_key_file": sandbox.apns.write_key(folder / "apns_key.p8"),
        "apns_key_id": sandbox.apns.key_id,
        "apns_team_id": sandbox.apns.team_id,
        "smtp_port": sandbox.smtp_port,
        "smtp_username": USERNAME,
        "smtp_password": PASSWORD,
    }
    return {
        variable(setting if "." in setting else f"{provider}.{setting}"): value.format_map(facts)
        for provider, entry in load_registry().items()
        for setting, value in entry.sandbox.items()
        if entry.is_installed
    }


def variable(setting: str) -> str:
    """Return the environment variable of a setting such as `fcm.base_url`."""
    return PREFIX + setting.replace(".", "__").upper()
