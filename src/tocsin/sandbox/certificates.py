"""The keys and certificates that a sandbox makes for itself and keeps in its folder."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import msgspec
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

_NAMES = ("localhost", "127.0.0.1", "::1")
PrivateKey = TypeVar("PrivateKey", rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """The files of the authority that clients trust, and of the server's chain and key."""

    ca: Path
    chain: Path
    key: Path


def prepare_certificates(folder: Path) -> Certificates:
    """Write a server certificate for this machine's loopback names, issued by the folder's own authority."""
    folder.mkdir(parents=True, exist_ok=True)
    ca_file, ca_key_file = folder / "ca.pem", folder / "ca.key"
    if ca_file.exists() and ca_key_file.exists():
        ca = trustme.CA.from_pem(ca_file.read_bytes(), ca_key_file.read_bytes())
    else:
        ca = trustme.CA(organization_name="Tocsin sandbox")
        ca.cert_pem.write_to_path(str(ca_file))
        write_private(ca_key_file, ca.private_key_pem.bytes())
    server = ca.issue_cert(*_NAMES)
    chain_file = folder / "server.pem"
    chain_file.write_bytes(b"".join(part.bytes() for part in server.cert_chain_pems))
    key_file = write_private(folder / "server.key", server.private_key_pem.bytes())
    return Certificates(ca=ca_file, chain=chain_file, key=key_file)


def stored_key(path: Path, generate: Callable[[], PrivateKey]) -> PrivateKey:
    """Load a private key, or generate and store it."""
    if path.exists():
        return cast("PrivateKey", serialization.load_pem_private_key(path.read_bytes(), password=None))
    key = generate()
    write_private(path, private_pem(key))
    return key


def private_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    """Encode a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_private(path: Path, content: bytes) -> Path:
    """Write a file that only its owner can read."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(content)
    return path
