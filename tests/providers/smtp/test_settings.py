"""The settings of mail."""

from pathlib import Path
from typing import Any

import pytest

from tests.providers.smtp.smtp_rig import SENDER
from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.smtp.provider import SmtpProvider
from tocsin.providers.smtp.settings import SmtpSettings

GOOD = SmtpSettings(host="mail.acme.example", sender=SENDER)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, []),
        ({"username": "u", "password": "p"}, []),
        ({"username": "u", "password": "p", "security": "none", "host": "127.0.0.1"}, []),
        ({"username": "u", "password": "p", "security": "none", "host": "localhost"}, []),
        ({"security": "none"}, []),
        ({"sender": None}, ["smtp.sender"]),
        ({"sender": "acme"}, ["smtp.sender"]),
        ({"sender": "Acme <notify@acme.example>\r\nBcc: x@y.z"}, ["smtp.sender"]),
        ({"sender": "jürgen@acme.example"}, ["smtp.sender"]),
        ({"reply_to": "nobody"}, ["smtp.reply_to"]),
        ({"username": "u"}, ["smtp.password"]),
        ({"password": "p"}, ["smtp.username"]),
        ({"username": "u", "password": "p", "security": "none"}, ["smtp.security"]),
        ({"username": "u", "password": "p", "security": "none", "host": "10.0.0.1"}, ["smtp.security"]),
        ({"port": 465, "security": "tls"}, []),
        ({"port": 465, "security": "none"}, []),
        ({"port": 2465}, []),
        ({"port": 587, "security": "tls"}, []),
        ({"port": 465}, ["smtp.security"]),
        ({"ca_file": Path("/nowhere/ca.pem")}, ["smtp.ca_file"]),
        ({"host": None, "sender": None, "username": "u"}, []),
    ],
)
def test_settings_that_cannot_be_used_are_named(changes: dict[str, Any], fields: list[str]) -> None:
    given = {"host": GOOD.host, "sender": GOOD.sender} | changes

    assert [fault.field for fault in SmtpSettings(**given).faults()] == fields
    if fields:
        with pytest.raises(ProviderSetupError, match=fields[0]):
            SmtpProvider(SmtpSettings(**given))


def test_without_a_host_there_is_no_provider(tmp_path: Path) -> None:
    with pytest.raises(ProviderSetupError, match=r"smtp\.host"):
        SmtpProvider(SmtpSettings())
    with pytest.raises(ProviderSetupError, match=r"ca\.pem"):
        SmtpProvider(SmtpSettings(host="h", sender=SENDER, ca_file=tmp_path / "ca.pem"))


def test_settings_tell_nothing_of_the_account() -> None:
    told = repr(SmtpSettings(host="h", username="us3r", password="passw0rd", sender=SENDER))

    assert "us3r" not in told
    assert "passw0rd" not in told
