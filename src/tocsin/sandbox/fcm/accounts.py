"""Google service accounts that only this sandbox honours."""

from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

_MAILBOX = "tocsin-sandbox"
_DOMAIN = "iam.gserviceaccount.com"


class ServiceAccount(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The key file Google hands out for a service account."""

    type: str = "service_account"
    project_id: str
    private_key_id: str
    private_key: str
    client_email: str
    client_id: str
    auth_uri: str = "https://accounts.google.com/o/oauth2/auth"
    token_uri: str
    auth_provider_x509_cert_url: str = "https://www.googleapis.com/oauth2/v1/certs"
    client_x509_cert_url: str
    universe_domain: str = "googleapis.com"

    def __repr__(self) -> str:
        """Show whose account it is, never its key."""
        return f"ServiceAccount({self.client_email!r})"


class Accounts:
    """One account for each project, all signed with the one key that this sandbox holds."""

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self._pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        self.public_key = key.public_key()

    @classmethod
    def prepare(cls, folder: Path) -> "Accounts":
        """Take the folder's key, or make one."""
        path = folder / "accounts.key"
        if path.exists():
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
            if isinstance(key, rsa.RSAPrivateKey):
                return cls(key)
        accounts = cls(rsa.generate_private_key(public_exponent=65537, key_size=2048))
        path.touch(mode=0o600)
        path.write_text(accounts._pem)
        return accounts

    def account(self, project_id: str, token_uri: str) -> ServiceAccount:
        """Make the key file of a project's account."""
        email = f"{_MAILBOX}@{project_id}.{_DOMAIN}"
        return ServiceAccount(
            project_id=project_id,
            private_key_id="sandbox",
            private_key=self._pem,
            client_email=email,
            client_id="100000000000000000000",
            token_uri=token_uri,
            client_x509_cert_url=f"https://www.googleapis.com/robot/v1/metadata/x509/{email}",
        )


def project_of(client_email: str) -> str | None:
    """Tell which project an account belongs to, if it is one of the sandbox's."""
    mailbox, _, domain = client_email.partition("@")
    project, _, rest = domain.partition(".")
    return project if mailbox == _MAILBOX and rest == _DOMAIN and project else None
