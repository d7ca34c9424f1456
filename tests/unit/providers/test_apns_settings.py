from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.apns.provider import HOSTS, ApnsProvider
from tocsin.providers.apns.settings import ApnsSettings

TOPIC = "com.example.shop"


def test_each_environment_has_its_address() -> None:
    assert HOSTS == {
        "production": "https://api.push.apple.com",
        "sandbox": "https://api.sandbox.push.apple.com",
    }


def good(path: Path, **changes: Any) -> ApnsSettings:
    given: dict[str, Any] = {
        "key_file": path,
        "key_id": "ABCDE12345",
        "team_id": "TEAM123456",
        "topic": TOPIC,
    }
    return ApnsSettings(**given | changes)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "AuthKey.p8"
    path.write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    return path


def test_settings_that_fit_have_no_fault(key_file: Path) -> None:
    assert list(ApnsSettings().faults()) == []
    assert list(good(key_file).faults()) == []
    assert list(good(key_file, base_url="https://127.0.0.1:2197").faults()) == []


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"key_id": None}, ["apns.key_id"]),
        ({"team_id": "", "topic": None}, ["apns.team_id", "apns.topic"]),
        ({"key_file": None}, ["apns.key_file"]),
        ({"key_file": Path("missing.p8")}, ["apns.key_file"]),
        ({"topic": "com.example.shop.voip"}, ["apns.topic"]),
        ({"topic": "com.example\nshop"}, ["apns.topic"]),
        ({"base_url": "http://127.0.0.1:80"}, ["apns.base_url"]),
        ({"ca_file": Path("missing.pem")}, ["apns.ca_file"]),
    ],
)
def test_settings_that_contradict_are_named(key_file: Path, changes: Any, fields: list[str]) -> None:
    settings = good(key_file, **changes)

    assert [fault.field for fault in settings.faults()] == fields
    with pytest.raises(ProviderSetupError):
        ApnsProvider(settings)


def pem(key: Any, password: bytes | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    written: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return written


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"pr1vate",
        b"-----BEGIN PRIVATE KEY-----\ncHIxdmF0ZQ==\n-----END PRIVATE KEY-----\n",
        pem(rsa.generate_private_key(public_exponent=65_537, key_size=2_048)),
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(ec.generate_private_key(ec.SECP256R1()), b"secret"),
    ],
    ids=["empty", "text", "no key", "rsa", "p-384", "encrypted"],
)
def test_a_file_that_is_no_key_of_apple_is_named_without_its_content(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "wrong.p8"
    path.write_bytes(content)

    (fault,) = good(path).faults()

    assert (fault.field, fault.code) == ("apns.key_file", "invalid")
    assert "wrong.p8" in fault.message
    assert "pr1vate" not in fault.message
    with pytest.raises(ProviderSetupError, match=r"\.p8"):
        ApnsProvider(good(path))


def test_without_a_key_there_is_no_provider() -> None:
    with pytest.raises(ProviderSetupError, match="TOCSIN_APNS__KEY_FILE"):
        ApnsProvider(ApnsSettings())
