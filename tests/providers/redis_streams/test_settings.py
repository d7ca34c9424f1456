"""The settings of providers that hand off, and what contradicts them."""

import builtins
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.providers.redis_streams.rig import TABLES
from tocsin.domain.errors import ProviderSetupError, SettingsError
from tocsin.providers.gateway_stream.settings import GatewayStreamSettings
from tocsin.providers.mail_stream.settings import MailStreamSettings
from tocsin.providers.registry import load_registry
from tocsin.settings.build import setting_name
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings, providers_in_use

URL = "redis://:s3cret@redis.example:6379/0"
BOTH = {
    "TOCSIN_REDIS__URL": URL,
    "TOCSIN_GATEWAY_STREAM__ENABLED": "true",
    "TOCSIN_GATEWAY_STREAM__TABLES": str(TABLES),
    "TOCSIN_MAIL_STREAM__ENABLED": "true",
}


def loaded(environ: Mapping[str, str]) -> Settings:
    return load_settings(environ, Path("/dev/null"))


def problems(environ: Mapping[str, str]) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        loaded(environ)
    return {fault.field: fault.message for fault in caught.value.faults}


def test_the_defaults_are_the_streams_of_the_document_on_the_redis_of_all() -> None:
    settings = loaded(BOTH)

    gateway, mail = settings.provider(GatewayStreamSettings), settings.provider(MailStreamSettings)
    assert (gateway.stream, gateway.max_len) == ("gateway:client-events", 1_024)
    assert (mail.stream, mail.source) == ("mail:delivery_commands", "notification")
    assert gateway.url == mail.url == URL
    assert set(providers_in_use(settings)) == {"gateway_stream", "mail_stream"}
    assert "s3cret" not in repr([gateway, mail, settings])


def test_each_may_have_a_redis_of_its_own() -> None:
    own = "rediss://other.example:6380/1"

    settings = loaded(BOTH | {"TOCSIN_MAIL_STREAM__URL": own})

    assert settings.provider(MailStreamSettings).url == own
    assert settings.provider(GatewayStreamSettings).url == URL


def test_a_lease_of_five_seconds_is_enough_for_both() -> None:
    settings = loaded(BOTH | {"TOCSIN_DISPATCH__LEASE_SECONDS": "5"})

    assert settings.dispatch.lease_seconds == 5
    assert "must be at least 4:" in str(problems(BOTH | {"TOCSIN_DISPATCH__LEASE_SECONDS": "3"}))


def test_what_is_missing_is_named() -> None:
    enabled = {name: value for name, value in BOTH.items() if name.endswith("ENABLED")}

    assert problems(enabled) == {
        setting_name(("gateway_stream", "tables")): "must be set: the folder of the code that flatc generated"
        " for the catalog's events",
        setting_name(("gateway_stream", "url")): "or redis.url, must be set: redis://…",
        setting_name(("mail_stream", "url")): "or redis.url, must be set: redis://…",
    }


def test_an_address_that_is_none_is_refused_without_being_quoted() -> None:
    found = problems(BOTH | {"TOCSIN_MAIL_STREAM__URL": "http://:s3cret@redis.example"})

    (message,) = found.values()
    assert list(found) == [setting_name(("mail_stream", "url"))]
    assert message == "must be an address of Redis: redis://, rediss:// or unix://"


@pytest.mark.parametrize("source", ["a\nb", "a\x00b", "\u2028"])
def test_a_source_that_every_mailer_would_refuse_stops_the_start(source: str) -> None:
    assert list(problems(BOTH | {"TOCSIN_MAIL_STREAM__SOURCE": source})) == [
        setting_name(("mail_stream", "source"))
    ]


def test_certificates_are_for_an_address_with_tls(tmp_path: Path) -> None:
    (file := tmp_path / "ca.pem").touch()
    own = BOTH | {"TOCSIN_MAIL_STREAM__CA_FILE": str(file)}

    assert problems(own) == {setting_name(("mail_stream", "ca_file")): "is for TLS: a rediss:// address"}
    loaded(own | {"TOCSIN_MAIL_STREAM__URL": "rediss://other.example"})


@pytest.mark.parametrize(
    ("more", "name", "other"),
    [
        ({"TOCSIN_EXPO__ENABLED": "true"}, "gateway_stream", "expo"),
        (
            {"TOCSIN_SMTP__HOST": "mail.example", "TOCSIN_SMTP__SENDER": "a@mail.example"},
            "mail_stream",
            "smtp",
        ),
    ],
)
def test_a_channel_cannot_have_two_ways(more: dict[str, str], name: str, other: str) -> None:
    found = problems(BOTH | more)

    assert list(found) == [setting_name((name, "enabled"))]
    assert f"cannot be used together with {other}" in str(found)


def test_another_channel_may_be_sent_by_tocsin_itself() -> None:
    only_push = {name: value for name, value in BOTH.items() if "MAIL" not in name}

    settings = loaded(
        only_push | {"TOCSIN_SMTP__HOST": "mail.example", "TOCSIN_SMTP__SENDER": "a@mail.example"}
    )

    assert set(providers_in_use(settings)) == {"gateway_stream", "smtp"}


@pytest.mark.parametrize("name", ["gateway_stream", "mail_stream"])
def test_without_the_packages_it_says_which_extra_brings_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = load_registry()[name]
    real = builtins.__import__

    def without_redis(module: str, *rest: Any) -> Any:
        if module.partition(".")[0] == "redis":
            raise ModuleNotFoundError("No module named 'redis'", name="redis")
        return real(module, *rest)

    for module in [
        each
        for each in sys.modules
        if each.startswith(("tocsin.providers.redis_streams", f"tocsin.providers.{name}."))
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without_redis)

    with pytest.raises(ProviderSetupError, match=r"pip install 'tocsin\[redis\]'"):
        entry.build(loaded(BOTH).provider(entry.settings))


def test_an_option_that_redis_has_not_stops_the_start_without_a_password() -> None:
    url = f"{URL}?colour=red"
    settings = MailStreamSettings(enabled=True, url=url)

    assert list(problems(BOTH | {"TOCSIN_MAIL_STREAM__URL": url})) == [setting_name(("mail_stream", "url"))]
    with pytest.raises(ProviderSetupError) as caught:
        load_registry()["mail_stream"].build(settings)

    assert str(caught.value) == "mail_stream.url is not an address of Redis."


@pytest.mark.parametrize("name", ["gateway_stream", "mail_stream"])
async def test_each_is_built_from_the_settings(name: str) -> None:
    entry = load_registry()[name]

    provider = entry.build(loaded(BOTH).provider(entry.settings))

    assert (provider.name, entry.name) == (name, name)
    await provider.aclose()
