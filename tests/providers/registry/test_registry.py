"""A provider is a folder and one entry, and another package can bring one."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.edges.edge import SECRET, faults, person
from tests.providers.registry import pigeon
from tests.providers.registry.pigeon import PigeonProvider, PigeonSettings
from tests.serving import serving
from tests.waiting import found
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.compose.providers import kept_secrets, open_providers
from tocsin.compose.providers_in_use import provider_summaries
from tocsin.domain.delivery.message import Provider
from tocsin.domain.errors import SettingsError
from tocsin.domain.plan import HAND_OFF
from tocsin.engine.clock import utc_now
from tocsin.providers.registry import BUILT_IN, device_rules, load_registry
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.settings.build import setting_name
from tocsin.settings.load import load_settings
from tocsin.settings.tree import providers_in_use
from tocsin.store.pool import Pool

ROOT = Path(__file__).parents[3]
OURS = ("fcm", "apns", "expo", "webpush", "sns", "smtp", "webhook", "inbox", "gateway_stream", "mail_stream")
ANATOMY = ("settings", "render", "answers", "provider")
CONFIGURED = {
    "TOCSIN_PIGEON__LOFT": "the attic",
    "TOCSIN_AUTH__JWT_SECRET": SECRET,
    "TOCSIN_QUIET_HOURS__ENABLED": "false",
    "TOCSIN_DISPATCH__POLL_SECONDS": "0.02",
}

Installing = Callable[[str], None]


@pytest.fixture
def installing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installing]:
    """Install packages, as far as their metadata goes, that bring the providers they are given."""
    numbers = iter(range(100))
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(*providers: str) -> None:
        name = f"flock{next(numbers)}"
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("\n".join(["[tocsin.providers]", *providers]))

    yield install
    pigeon.arrived.clear()


@pytest.fixture
def pigeons(installing: Installing) -> None:
    installing("pigeon = tests.providers.registry.pigeon:ENTRY")


def problems(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ or {}, Path("/dev/null"))
    return {fault.field: fault.message for fault in caught.value.faults}


def test_our_own_providers_are_listed_once() -> None:
    assert tuple(entry.name for entry in BUILT_IN) == OURS == tuple(load_registry())


@pytest.mark.parametrize("entry", BUILT_IN, ids=lambda entry: str(entry.name))
def test_each_of_our_providers_has_the_same_anatomy(entry: Any) -> None:
    folder = ROOT / "src" / "tocsin" / "providers" / entry.name

    assert [part for part in ANATOMY if not (folder / f"{part}.py").is_file()] == []
    assert entry.settings.__module__ == f"tocsin.providers.{entry.name}.settings"
    assert entry.build.load().name == entry.name


def test_no_provider_is_listed_anywhere_but_in_the_registry() -> None:
    """A list of all providers would have to change for each new one.

    Two lists need not be complete: the demo's devices, and the messages that the sandbox can show. The
    sandbox cannot read the registry, because it does not import providers.
    """
    source = ROOT / "src" / "tocsin"
    lists = sorted(
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if all(f'"{name}"' in path.read_text("utf-8") for name in ("fcm", "apns", "expo"))
    )

    assert lists == ["cli/demo/people.py", "sandbox/appearance.py"]


@pytest.mark.usefixtures("pigeons")
def test_another_package_brings_settings_and_a_rate() -> None:
    settings = load_settings(CONFIGURED | {"TOCSIN_RATES__PIGEON": "7"}, Path("/dev/null"))

    assert settings.provider(PigeonSettings) == PigeonSettings(loft="the attic")
    assert tuple(providers_in_use(settings)) == ("pigeon",)
    [summary] = provider_summaries(settings)
    assert (summary.name, summary.channel, summary.rate) == ("pigeon", "push", 7.0)
    assert load_settings(CONFIGURED, Path("/dev/null")).rates.of("pigeon") == 50.0


@pytest.mark.usefixtures("pigeons")
def test_its_settings_are_checked_as_ours_are() -> None:
    loft, pigeons = setting_name(("pigeon", "loft")), setting_name(("pigeon", "pigeons"))

    assert problems({"TOCSIN_PIGEON__LOFTS": "1"}) == {
        setting_name(("pigeon", "lofts")): f"there is no such setting; did you mean {loft}?"
    }
    assert "Expected int" in problems({"TOCSIN_PIGEON__PIGEONS": "many"})[pigeons]
    assert problems(CONFIGURED | {"TOCSIN_PIGEON__PIGEONS": "0"}) == {pigeons: "must be at least 1"}
    assert "pigeon.timeout" in str(problems(CONFIGURED | {"TOCSIN_DISPATCH__LEASE_SECONDS": "20"}))


def test_without_its_package_its_settings_are_unknown() -> None:
    assert problems(CONFIGURED) == {setting_name(("pigeon",)): "there is no such setting"}


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("pigeon = tests.providers.registry.nothing:ENTRY", "cannot be loaded: ModuleNotFoundError"),
        ("pigeon = tests.providers.registry.pigeon:NOTHING", "cannot be loaded: AttributeError"),
        ("pigeon = tests.providers.registry.pigeon:NO_ENTRY", "must be a ProviderEntry, not type"),
        ("pigeon = tocsin.providers.registry:BUILT_IN", "must be a ProviderEntry, not tuple"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_named(installing: Installing, point: str, said: str) -> None:
    installing(point)

    [(field, message)] = problems().items()

    assert field == f"entry point {point} of the package flock0"
    assert said in message


def test_a_name_that_is_taken_is_refused(installing: Installing) -> None:
    installing("pigeon = tests.providers.registry.pigeon:ENTRY")
    installing("dove = tests.providers.registry.pigeon:ENTRY")

    [(field, message)] = problems().items()

    assert field.startswith(("entry point pigeon", "entry point dove"))
    assert message == "there is a provider 'pigeon' already"


def test_a_name_of_another_section_is_refused(installing: Installing) -> None:
    installing("http = tests.providers.registry.pigeon:OF_A_SECTION")

    assert problems() == {"http": "is another setting"}


@pytest.mark.usefixtures("pigeons")
async def test_it_is_built_with_its_settings_and_its_secret(pool: Pool) -> None:
    settings = load_settings(CONFIGURED, Path("/dev/null"))
    secrets = await kept_secrets(settings, pool)
    async with open_providers(settings, secrets) as providers:
        provider: Provider = providers["pigeon"]

        assert isinstance(provider, PigeonProvider)
        assert (provider.concurrency, provider.ring, repr(secrets)) == (3, "ring", "Secrets(…)")
    assert await kept_secrets(settings, pool) == secrets


@pytest.mark.usefixtures("pigeons")
async def test_the_sandbox_sets_up_every_provider_that_says_how(tmp_path: Path) -> None:
    async with Sandbox(SandboxSettings()) as sandbox:
        settings = load_settings(settings_for(sandbox, tmp_path), Path("/dev/null"))

        in_sandbox = [name for name in OURS if name not in HAND_OFF]
        assert tuple(providers_in_use(settings)) == (*in_sandbox, "pigeon")
        assert settings.provider(PigeonSettings).loft == sandbox.settings.host


@pytest.mark.usefixtures("pigeons")
async def test_a_notification_goes_out_by_a_provider_of_another_package(
    database_url: str, pool: Pool
) -> None:
    made = {role: await create_key(pool, "billing", role, utc_now()) for role in Role}
    producer, operator = (
        {"Authorization": f"Bearer {made[role].secret}"} for role in (Role.PRODUCER, Role.OPERATOR)
    )
    intent = {
        "type": "new_customer",
        "audience": {"users": ["ada"]},
        "payload": {"customer_name": "Ali Veli"},
        "idempotency_key": "k1",
    }
    device = {"token": "roof:town hall", "platform": "web", "provider": "pigeon"}
    settings = load_settings(CONFIGURED, Path("/dev/null"))
    async with serving(settings, database_url) as http:
        wrong = await http.post(
            "/v1/devices/register", json=device | {"token": "garden"}, headers=person("ada")
        )
        right = await http.post("/v1/devices/register", json=device, headers=person("ada"))
        accepted = await http.post("/v1/notifications", json=intent, headers=producer)

        async def delivered() -> dict[str, Any] | None:
            answer = await http.get(
                f"/v1/notifications/{accepted.json()['notification_id']}", headers=operator
            )
            return next((each for each in answer.json()["deliveries"] if each["state"] == "sent"), None)

        delivery = await found(delivered)
        health = (await http.get("/v1/admin/providers", headers=operator)).json()["providers"]
        schema = (await http.get("/openapi.json")).json()["components"]["schemas"]["RegisterDevice"]

    assert (wrong.status_code, faults(wrong)) == (422, {"token": "invalid"})
    assert "must be a roof, as roof:town hall" in wrong.text
    assert (right.status_code, right.json()["provider"]) == (200, "pigeon")
    [message] = pigeon.arrived
    assert (message.target, message.title) == ("roof:town hall", "New customer")
    assert delivery["provider"] == "pigeon"
    assert delivery["provider_message_id"] == f"ring-{message.delivery_id}"
    assert [(each["name"], each["rate"]["limit"]) for each in health] == [("pigeon", 50.0)]
    assert schema["properties"]["provider"]["enum"] == sorted(device_rules(load_registry()))


def test_the_provider_of_the_tests_is_nobody_elses() -> None:
    assert "pigeon" not in load_registry()
    assert not [name for name in sys.modules if name.startswith("tocsin.") and "pigeon" in name]
