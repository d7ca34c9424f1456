"""The certificate authority a sandbox makes for itself."""

from pathlib import Path

import msgspec
import trustme

_NAMES = ("localhost", "127.0.0.1", "::1")


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files lie: the authority that clients trust, the server's chain and key."""

    ca: Path
    chain: Path
    key: Path


def prepare_certificates(folder: Path) -> Certificates:
    """Write a server certificate for this machine's loopback names, under the folder's own authority."""
    ca_file, ca_key_file = folder / "ca.pem", folder / "ca.key"
    if ca_file.exists() and ca_key_file.exists():
        ca = trustme.CA.from_pem(ca_file.read_bytes(), ca_key_file.read_bytes())
    else:
        ca = trustme.CA(organization_name="Tocsin sandbox")
        ca.cert_pem.write_to_path(str(ca_file))
        _write_private(ca_key_file, ca.private_key_pem.bytes())
    server = ca.issue_cert(*_NAMES)
    chain_file, key_file = folder / "server.pem", folder / "server.key"
    chain_file.write_bytes(b"".join(part.bytes() for part in server.cert_chain_pems))
    _write_private(key_file, server.private_key_pem.bytes())
    return Certificates(ca=ca_file, chain=chain_file, key=key_file)


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(content)
