import pytest

from tests.gateway.clients import SECRET
from tocsin.cli.run.gateway import open_gateway
from tocsin.domain.errors import SettingsError
from tocsin.gateway.settings import GatewaySettings, gateway_settings_faults
from tocsin.settings.load import load_settings


def test_everything_that_the_gateway_lacks_is_listed() -> None:
    with pytest.raises(SettingsError) as error:
        open_gateway(load_settings({}))

    assert [fault.field for fault in error.value.faults] == [
        "redis.url (TOCSIN_REDIS__URL)",
        "auth.jwt_secret (TOCSIN_AUTH__JWT_SECRET)",
    ]


async def test_it_may_have_a_redis_of_its_own() -> None:
    settings = load_settings(
        {"TOCSIN_GATEWAY__URL": "redis://127.0.0.1:1", "TOCSIN_AUTH__JWT_SECRET": SECRET}
    )

    assert await open_gateway(settings).fault() == "The stream was not read yet."


@pytest.mark.parametrize(
    "origin", ["https://app.example.com", "http://localhost:8080", "http://[::1]:9", "*"]
)
def test_origins_are_written_as_browsers_send_them(origin: str) -> None:
    assert list(gateway_settings_faults(GatewaySettings(allowed_origins=[origin]))) == []


@pytest.mark.parametrize(
    "origin",
    ["app.example.com", "https://app.example.com/", "https://a@b.example", "https://", "HTTPS://x", ""],
)
def test_what_no_browser_sends_as_origin_is_refused(origin: str) -> None:
    [fault] = gateway_settings_faults(GatewaySettings(allowed_origins=[origin]))

    assert fault.field == "gateway.allowed_origins"


def test_an_address_that_is_none_of_redis_is_refused_without_quoting_it() -> None:
    [fault] = gateway_settings_faults(GatewaySettings(url="https://:hidden@redis.example"))

    assert fault.field == "gateway.url"
    assert "hidden" not in fault.message
