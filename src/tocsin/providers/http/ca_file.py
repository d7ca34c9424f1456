"""Certificates to trust besides the usual ones."""

from pathlib import Path

from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.settings import read_file


def read_ca_file(ca_file: Path | None) -> bytes | None:
    """Read the certificates to trust besides the usual ones."""
    if ca_file is None:
        return None
    certificates = read_file(ca_file, "The CA file")
    if b"-----BEGIN CERTIFICATE-----" not in certificates:
        raise ProviderSetupError(f"The CA file {ca_file} holds no certificate in PEM form.")
    return certificates
