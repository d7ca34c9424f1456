"""The settings by which Tocsin finds every stand-in of a sandbox."""

from collections.abc import Mapping
from pathlib import Path

from tocsin.sandbox import Sandbox
from tocsin.sandbox.apns.service import Apns
from tocsin.sandbox.smtp.server import PASSWORD, USERNAME

TOPIC = "com.example.app"
CONTACT = "mailto:ops@example.com"
SENDER = "Tocsin <notify@example.com>"


def settings_for(sandbox: Sandbox, folder: Path) -> Mapping[str, str]:
    """Write the key files into a folder and give the variables that point Tocsin at the sandbox."""
    apns = sandbox.service("apns")
    if not isinstance(apns, Apns):
        raise TypeError("the sandbox has another stand-in for APNs")
    ca_file = str(sandbox.ca_file)
    return {
        "TOCSIN_FCM__BASE_URL": sandbox.https_url,
        "TOCSIN_FCM__CA_FILE": ca_file,
        "TOCSIN_FCM__CREDENTIALS_FILE": str(sandbox.write_service_account(folder / "service_account.json")),
        "TOCSIN_APNS__BASE_URL": sandbox.https_url,
        "TOCSIN_APNS__CA_FILE": ca_file,
        "TOCSIN_APNS__KEY_FILE": str(apns.write_key(folder / "apns_key.p8")),
        "TOCSIN_APNS__KEY_ID": apns.key_id,
        "TOCSIN_APNS__TEAM_ID": apns.team_id,
        "TOCSIN_APNS__TOPIC": TOPIC,
        "TOCSIN_EXPO__ENABLED": "true",
        "TOCSIN_EXPO__BASE_URL": sandbox.https_url,
        "TOCSIN_EXPO__CA_FILE": ca_file,
        "TOCSIN_WEBPUSH__ENABLED": "true",
        "TOCSIN_WEBPUSH__SUBJECT": CONTACT,
        "TOCSIN_WEBPUSH__CA_FILE": ca_file,
        "TOCSIN_WEBPUSH__ALLOW_PRIVATE_ADDRESSES": "true",
        "TOCSIN_WEBHOOK__ENABLED": "true",
        "TOCSIN_WEBHOOK__CA_FILE": ca_file,
        "TOCSIN_WEBHOOK__ALLOW_PRIVATE_ADDRESSES": "true",
        "TOCSIN_SMTP__HOST": sandbox.settings.host,
        "TOCSIN_SMTP__PORT": str(sandbox.smtp_port),
        "TOCSIN_SMTP__USERNAME": USERNAME,
        "TOCSIN_SMTP__PASSWORD": PASSWORD,
        "TOCSIN_SMTP__SENDER": SENDER,
        "TOCSIN_SMTP__CA_FILE": ca_file,
    }
