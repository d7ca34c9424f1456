"""Device tokens and webhook secrets are encrypted in the database when a data key is set."""

import base64
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.edges.edge import faults, person, running, services
from tests.engine.stage import Stage, StubProvider
from tests.rows import add_device
from tocsin.api.auth.roles import Role
from tocsin.domain.delivery.outcome import Gone
from tocsin.domain.errors import SettingsError
from tocsin.domain.people.devices import DeviceSettings
from tocsin.engine.data_keys import RotatedData, rotate_data
from tocsin.settings.load import load_settings
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, Registered
from tocsin.store.pool import Pool
from tocsin.store.secrets import sealed_rows
from tocsin.store.secrets.sealed_rows import check_data_keys
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys, SealedError, data_keys

OLD, NEW = b"o" * 32, b"n" * 32
KEYS = DataKeys(NEW, [OLD])
RULES = DeviceSettings(registrations_per_hour=1_000)


async def register(stage: Stage, user: str, token: str, keys: DataKeys = KEYS, **more: Any) -> Any:
    wanted = DeviceRegistration(user_id=user, token=token, platform="android", provider="fcm", **more)
    result = await devices.register(stage.pool, wanted, RULES, stage.clock(), keys)
    assert isinstance(result, Registered)
    return result.device.id


async def stored(pool: Pool) -> dict[str, str]:
    return {str(row["id"]): row["token"] for row in await pool.fetch("select id, token from devices")}


async def test_an_encrypted_device_is_registered_sent_to_refreshed_moved_and_retired(stage: Stage) -> None:
    device_id = await register(stage, "ada", "token-1")
    assert await register(stage, "ada", "token-1") == device_id
    provider = StubProvider()
    async with stage.working(provider, data_keys=KEYS):
        await stage.settled(await stage.accept("ada", idempotency_key="1"), "sent")
        # A token refresh moves the old token to a row of its own, from which it can come back.
        assert await register(stage, "ada", "token-2", replaces_token="token-1") == device_id
        await stage.settled(await stage.accept("ada", idempotency_key="2"), "sent")
        assert await register(stage, "bob", "token-2") == device_id
        await stage.settled(await stage.accept("bob", idempotency_key="3"), "sent")
        revived = await register(stage, "ada", "token-1")
        provider.script("token-1", Gone("UNREGISTERED"))
        await stage.settled(await stage.accept("ada", idempotency_key="4"), "gone")

    assert [message.target for message in provider.arrived] == ["token-1", "token-2", "token-2", "token-1"]
    assert await stage.pool.fetchval("select retired_at is not null from devices where id = $1", revived)
    tokens = await stored(stage.pool)
    assert len(tokens) == 2
    assert all(token.startswith(f"sealed:{KEYS.current_id}:") for token in tokens.values())


async def test_a_key_that_is_missing_is_a_fault_of_that_delivery_alone(stage: Stage) -> None:
    await register(stage, "ada", "token-1")
    await register(stage, "bob", "token-2", NO_KEYS)
    provider = StubProvider()
    async with stage.working(provider):
        failed = await stage.accept("ada", idempotency_key="1")
        sent = await stage.accept("bob", idempotency_key="2")
        await stage.settled(failed, "rejected")
        await stage.settled(sent, "sent")

    [delivery] = await stage.deliveries(failed)
    assert delivery["last_error_code"] == "data_key_unknown"
    assert [message.target for message in provider.arrived] == ["token-2"]


async def test_webhook_secrets_are_encrypted_and_rotated(pool: Pool) -> None:
    async with running(services(pool, data_keys=KEYS)) as edge:
        headers = await edge.key(Role.PRODUCER)
        path = "/v1/users/ada/webhooks"
        made = (await edge.http.post(path, json={"url": "https://hooks.example/x"}, headers=headers)).json()
        rotate = f"{path}/{made['endpoint_id']}/rotate"
        rotated = (await edge.http.post(rotate, headers=headers)).json()
        listed = (await edge.http.get(path, headers=headers)).json()["webhooks"]
        row = await pool.fetchrow("select id, token, secret from devices")
    async with running(services(pool)) as without:
        refused = await without.http.post(rotate, headers=headers)

    assert row["secret"].startswith("sealed:")
    opened = KEYS.open(row["secret"], row["id"], "secret")
    assert opened.startswith(f"{rotated['secret']} {made['secret']}@")
    assert (row["token"], listed[0]["url"]) == ("https://hooks.example/x", "https://hooks.example/x")
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")


async def test_a_token_that_looks_encrypted_is_refused(pool: Pool) -> None:
    device = {"token": "sealed:0:x", "platform": "android"}
    async with running(services(pool)) as edge:
        answer = await edge.http.post("/v1/devices/register", json=device, headers=person("ada"))

    assert faults(answer) == {"token": "invalid"}


async def rotated(pool: Pool, keys: DataKeys) -> RotatedData:
    return await rotate_data(pool, keys, actor="test", progress=lambda _: None)


async def test_what_is_stored_is_encrypted_anew_in_batches_and_decrypted_again(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_rows, "BATCH", 2)
    before = {str(await add_device(pool, token=f"plain-{number}")): f"plain-{number}" for number in range(5)}
    url = "https://hooks.example/x"
    endpoint = await add_device(pool, provider="webhook", token=url, secret="whsec_1")
    before[str(endpoint)] = url

    first = await rotated(pool, DataKeys(OLD))
    assert (first.rewritten, first.unreadable, first.left) == (6, 0, 0)
    assert {
        token.startswith("sealed:") for id_, token in (await stored(pool)).items() if id_ != str(endpoint)
    } == {True}
    # What is encrypted with a key that is not set is counted, and no key is forgotten.
    await pool.execute("delete from kept_secrets")
    partly = await rotated(pool, DataKeys(NEW))
    assert (partly.rewritten, partly.unreadable, partly.left) == (0, 6, 6)
    second = await rotated(pool, KEYS)
    again = await rotated(pool, KEYS)
    assert (second.rewritten, second.left, again.rewritten, again.left) == (6, 0, 0, 0)

    await check_data_keys(pool, DataKeys(NEW))
    for wrong in (NO_KEYS, DataKeys(OLD)):
        with pytest.raises(SettingsError, match=str(KEYS.current_id)):
            await check_data_keys(pool, wrong)

    off = await rotated(pool, DataKeys(None, [NEW]))
    assert (off.key_id, off.rewritten, off.left) == (None, 6, 0)
    assert await stored(pool) == before
    assert await pool.fetchval("select secret from devices where id = $1", endpoint) == "whsec_1"
    await check_data_keys(pool, NO_KEYS)
    actions = await pool.fetch("select action, details ->> 'left' from audit order by id")
    assert [tuple(row) for row in actions] == [
        ("data_key.rotate", left) for left in ("0", "6", "0", "0", "0")
    ]


def test_a_sealed_text_opens_in_its_own_place_only() -> None:
    row = uuid4()
    sealed = KEYS.seal("token-1", row, "token")

    assert KEYS.open(sealed, row, "token") == "token-1"
    assert sealed != KEYS.seal("token-1", row, "token")
    assert DataKeys(OLD, [NEW]).open(sealed, row, "token") == "token-1"
    damaged = sealed[:-6] + "AAAAA="
    for text, place, column in ((sealed, uuid4(), "token"), (sealed, row, "secret"), (damaged, row, "token")):
        with pytest.raises(SealedError) as caught:
            KEYS.open(text, place, column)  # type: ignore[arg-type]
        assert text not in str(caught.value)
    with pytest.raises(SealedError, match="which is not set here"):
        NO_KEYS.open(sealed, row, "token")


def test_keys_come_from_the_settings_or_from_files(tmp_path: Path) -> None:
    encoded = base64.b64encode(NEW).decode()
    (tmp_path / "key").write_text(encoded + "\n")
    settings = load_settings(
        {
            "TOCSIN_DATA__KEY_FILE": str(tmp_path / "key"),
            "TOCSIN_DATA__PREVIOUS_KEYS": f"{encoded},{encoded}",
        },
        Path("/dev/null"),
    )
    assert data_keys(settings.data).current_id == KEYS.current_id
    assert encoded not in repr(load_settings({"TOCSIN_DATA__KEY": encoded}, Path("/dev/null")).data)

    wrong = {"KEY": "c2hvcnQ=", "PREVIOUS_KEYS": "%%", "KEY_FILE": str(tmp_path / "none")}
    with pytest.raises(SettingsError) as caught:
        load_settings({f"TOCSIN_DATA__{name}": value for name, value in wrong.items()}, Path("/dev/null"))
    assert [fault.code for fault in caught.value.faults] == ["invalid", "invalid", "contradiction"]
    assert "c2hvcnQ=" not in str(caught.value)
    missing = load_settings({"TOCSIN_DATA__KEY_FILE": str(tmp_path / "none")}, Path("/dev/null"))
    with pytest.raises(SettingsError, match="cannot be read"):
        data_keys(missing.data)
