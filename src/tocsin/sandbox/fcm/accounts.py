"""Google service accounts that are valid in this sandbox only."""

import re
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa

from tocsin.sandbox.certificates import private_pem, stored_key

_PROJECT_ID = re.compile(r"[a-z][a-z0-9\-]{0,62}")
_MAILBOX = "tocsin-sandbox"
_DOMAIN = "iam.gserviceaccount.com"


class ServiceAccount(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The key file that Google issues for a service account."""

    type: str = "service_account"
    project_id: str
    private_key_id: str = "sandbox"
    private_key: str
    client_email: str
    client_id: str = "100000000000000000000"
    auth_uri: str = "https://accounts.google.com/o/oauth2/auth"
    token_uri: str
    auth_provider_x509_cert_url: str = "https://www.googleapis.com/oauth2/v1/certs"
    client_x509_cert_url: str
    universe_domain: str = "googleapis.com"

    def __repr__(self) -> str:
        """Show the account without its key."""
        return f"ServiceAccount({self.client_email!r})"


class Accounts:
    """One account for each project; all use the sandbox's one key, which is kept in its folder."""

    def __init__(self, folder: Path) -> None:
        key = stored_key(
            folder / "accounts.key", lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
        )
        self._pem = private_pem(key).decode()
        self.public_key = key.public_key()

    def account(self, project_id: str, token_uri: str) -> ServiceAccount:
        """Build the key file of a project's account."""
        if not _PROJECT_ID.fullmatch(project_id):
            raise ValueError(
                f"project id {project_id!r} is not valid: "
                "use lowercase letters, digits and hyphens, beginning with a letter"
            )
        email = f"{_MAILBOX}@{project_id}.{_DOMAIN}"
        return ServiceAccount(
            project_id=project_id,
            private_key=self._pem,
            client_email=email,
            token_uri=token_uri,
            client_x509_cert_url=f"https://www.googleapis.com/robot/v1/metadata/x509/{email}",
        )


def project_of(client_email: str) -> str | None:
    """Return the project of an account, if it is one of the sandbox's."""
    mailbox, _, domain = client_email.partition("@")
    project, _, rest = domain.partition(".")
    return project if mailbox == _MAILBOX and rest == _DOMAIN and project else None
