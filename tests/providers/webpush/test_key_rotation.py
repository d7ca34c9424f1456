"""A rotation of the key: old subscriptions go on with the old one, pages get the new one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.edges.edge import SECRET, person
from tests.providers.conformance import NOW, a_message
from tests.serving import serving
from tests.waiting import found, until
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.domain.delivery.outcome import Rejected, Sent
from tocsin.engine import webpush_keys
from tocsin.engine.clock import utc_now
from tocsin.providers.webpush.crypto import key_id_of, new_private_key_pem, public_key_of
from tocsin.providers.webpush.provider import WebPushProvider
from tocsin.providers.webpush.settings import SECRET_NAME, WebPushSettings
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.settings.load import load_settings
from tocsin.store.pool import Pool
from tocsin.store.secrets import kept_secrets

OLD, NEW = new_private_key_pem(), new_private_key_pem()


@pytest.fixture(scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxSettings(folder=tmp_path_factory.mktemp("sandbox"))) as running:
        yield running


def subscribed(sandbox: Sandbox, browser: str, public_key: str) -> str:
    """Subscribe a browser that takes messages of the owner of this key only."""
    made = sandbox.webpush.subscribe(browser, sandbox.https_url, sender_key=public_key)
    return msgspec.json.encode(made).decode()


async def test_subscriptions_of_both_keys_get_their_messages_without_a_restart(
    sandbox: Sandbox, database_url: str, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    use_keys = WebPushProvider.use_keys

    def noted(provider: WebPushProvider, private_keys: Sequence[str]) -> None:
        use_keys(provider, private_keys)
        used.append(len(private_keys))

    monkeypatch.setattr(WebPushProvider, "use_keys", noted)
    monkeypatch.setattr(webpush_keys, "READ_SECONDS", 0.05)
    environment = {
        **settings_for(sandbox, tmp_path),
        "TOCSIN_AUTH__JWT_SECRET": SECRET,
        "TOCSIN_QUIET_HOURS__ENABLED": "false",
        "TOCSIN_DISPATCH__POLL_SECONDS": "0.02",
    }
    admin = {"Authorization": f"Bearer {(await create_key(pool, 'ops', Role.ADMIN, utc_now())).secret}"}
    async with serving(load_settings(environment, Path("/dev/null")), database_url) as http:

        async def public_key() -> str:
            return str((await http.get("/v1/webpush/key")).json()["public_key"])

        async def register(browser: str, key: str) -> None:
            device = {"token": subscribed(sandbox, browser, key), "platform": "web", "provider": "webpush"}
            answer = await http.post("/v1/devices/register", json=device, headers=person(browser))
            assert answer.status_code == 200, answer.text

        old = await public_key()
        await register("early", old)
        rotated = await http.post("/v1/admin/webpush/rotate", headers=admin)
        # Pages get the new key when every worker has it.
        assert await public_key() == old
        await until(lambda: 2 in used)
        await pool.execute("update kept_secrets set created_at = created_at - interval '2 min'")

        async def is_new() -> bool:
            return await public_key() == str(rotated.json()["public_key"])

        await found(is_new)
        await register("late", rotated.json()["public_key"])
        # A browser that registers its subscription again has the key that it was made with.
        await register("early", old)
        intent = {
            "type": "new_customer",
            "audience": {"users": ["early", "late"]},
            "payload": {"customer_name": "Ali Veli"},
            "idempotency_key": "k1",
        }
        accepted = await http.post("/v1/notifications", json=intent, headers=admin)

        async def settled() -> list[dict[str, Any]] | None:
            answer = await http.get(f"/v1/notifications/{accepted.json()['notification_id']}", headers=admin)
            deliveries = [each for each in answer.json()["deliveries"] if each["channel"] == "push"]
            ended = all(each["state"] not in {"pending", "scheduled"} for each in deliveries)
            return deliveries if ended else None

        deliveries = await found(settled)
        audited = (await http.get("/v1/admin/audit?action=webpush_key.rotate", headers=admin)).json()

    assert [each["state"] for each in deliveries] == ["sent", "sent"]
    stored = {row["user_id"]: row["sender_key"] for row in await pool.fetch("select * from devices")}
    assert stored == {"early": key_id_of(old), "late": rotated.json()["key_id"]}
    [entry] = audited["entries"]
    assert entry["details"] == {"key_id": rotated.json()["key_id"], "old_discarded": False}


@asynccontextmanager
async def sending(sandbox: Sandbox, *private_keys: str) -> AsyncIterator[WebPushProvider]:
    settings = WebPushSettings(
        enabled=True,
        subject="mailto:ops@example.com",
        ca_file=sandbox.ca_file,
        allow_private_addresses=True,
    )
    provider = WebPushProvider(settings, private_keys[0])
    provider.use_keys(private_keys)
    try:
        yield provider
    finally:
        await provider.aclose()


@pytest.mark.parametrize(
    ("made_with", "remembered", "requests"),
    [(OLD, OLD, 1), (NEW, NEW, 1), (OLD, None, 1), (NEW, None, 2), (OLD, NEW, 2)],
    ids=["old", "new", "before keys were remembered", "not remembered", "fetched before the rotation"],
)
async def test_a_key_that_does_not_fit_is_followed_by_the_others(
    sandbox: Sandbox, made_with: str, remembered: str | None, requests: int
) -> None:
    sandbox.reset()
    target = subscribed(sandbox, "browser", public_key_of(made_with))
    sender_key = key_id_of(public_key_of(remembered)) if remembered else None
    async with sending(sandbox, NEW, OLD) as provider:
        [outcome] = await provider.send([a_message(target, sender_key=sender_key)], now=NOW)

    assert isinstance(outcome, Sent)
    assert sandbox.webpush.counters.stats().requests == requests


async def test_keys_of_files_are_rotated_by_the_settings(pool: Pool, tmp_path: Path) -> None:
    current, previous = tmp_path / "new.pem", tmp_path / "old.pem"
    current.write_text(NEW)
    previous.write_text(OLD)
    files = WebPushSettings(
        enabled=True,
        subject="mailto:ops@example.com",
        private_key_file=current,
        previous_key_files=[previous],
    )
    alone = WebPushSettings(enabled=True, subject="mailto:ops@example.com", previous_key_files=[previous])

    assert files.private_keys() == [NEW, OLD]
    assert list(files.faults()) == []
    assert [fault.code for fault in alone.faults()] == ["alone"]
    keys = webpush_keys.WebPushKeys(pool, files.private_keys(), are_stored=False)
    await keys.read()
    assert keys.public_key == public_key_of(NEW)


async def test_discarding_the_old_keys_leaves_the_new_one_alone(pool: Pool) -> None:
    async with pool.acquire() as connection:
        assert await webpush_keys.rotate_webpush_key(connection, discard_old=False, actor="test") is None
        await kept_secrets.get_or_make(connection, SECRET_NAME, lambda: OLD, utc_now())
        used: list[Sequence[str]] = []
        keys = webpush_keys.WebPushKeys(pool, [OLD], changed=used.append)
        for _ in range(2):
            assert await webpush_keys.rotate_webpush_key(connection, discard_old=False, actor="test")
        await keys.read()
        assert (len(used[-1]), used[-1][-1], keys.public_key) == (3, OLD, public_key_of(OLD))

        rotated = await webpush_keys.rotate_webpush_key(connection, discard_old=True, actor="test")
        await keys.read()

    assert rotated is not None
    assert len(used[-1]) == 1
    assert (keys.public_key, keys.key_id) == (rotated.public_key, rotated.key_id)


async def test_a_subscription_of_a_discarded_key_is_set_aside(sandbox: Sandbox) -> None:
    sandbox.reset()
    target = subscribed(sandbox, "browser", public_key_of(OLD))
    sender_key = key_id_of(public_key_of(OLD))
    async with sending(sandbox, NEW) as provider:
        [outcome] = await provider.send([a_message(target, sender_key=sender_key)], now=NOW)

    assert isinstance(outcome, Rejected)
    assert (outcome.code, outcome.quarantine) == ("vapid_key_mismatch", True)
