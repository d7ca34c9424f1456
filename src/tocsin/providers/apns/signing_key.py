"""The key that provider tokens are signed with."""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.settings import read_file


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Load a key as Apple hands it out; an error describes the file without its content."""
    content = read_file(path, "The APNs key")
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ProviderSetupError(
            f"{path} is no APNs key: give the .p8 file that Apple's developer site hands out under Keys."
        )
    return key
