"""The entries exactly as their readers expect them."""

import asyncio
import re
import time
from pathlib import Path

import msgspec
import pytest

from tests.providers.redis_streams.rig import GatewayRig, MailRig, StreamRig
from tests.providers.rig import NOW
from tocsin.domain.delivery.outcome import Sent
from tocsin.providers.redis_streams.answers import NOT_READY

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
ENTRY_ID = "1767225600000-0"


@pytest.mark.parametrize("rig", [GatewayRig], indirect=True)
async def test_an_event_has_its_fields_and_no_session(rig: GatewayRig) -> None:
    await rig.send(rig.provider(), "ada")

    ((_, fields),) = await rig.entries()
    body = fields[b"payload_bytes"]
    assert {name: value for name, value in fields.items() if value is not body} == {
        b"user_id": b"ada",
        b"event_type": b"new_customer",
        b"event_id": f"{ENTRY_ID}/push:user:ada".encode(),
        b"request_id": b"request-1",
        b"trace_id": b"trace-1",
    }
    assert b"g-7" in body


@pytest.mark.parametrize("rig", [GatewayRig], indirect=True)
async def test_the_events_are_trimmed_to_about_as_many_as_are_set(rig: GatewayRig) -> None:
    provider = rig.provider(max_len=100)

    for number in range(5):
        await rig.send(provider, *(f"u{number}-{place}" for place in range(100)))

    assert 100 <= len(await rig.entries()) < 300


@pytest.mark.parametrize("rig", [GatewayRig], indirect=True)
async def test_a_batch_of_large_payloads_leaves_the_event_loop_to_others(rig: GatewayRig) -> None:
    provider = rig.provider()
    large = {"payload": {"names": ["ada"] * 3_000}, "fields": ("names",)}
    batch = [rig.message(f"u{number}", **large) for number in range(100)]
    gaps = []

    async def measure_turns() -> None:
        """Note the computing time between two turns of the loop: others may keep the machine busy."""
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - before)

    measuring = asyncio.create_task(measure_turns())
    await asyncio.sleep(0)
    outcomes = await provider.send(batch, now=NOW)
    measuring.cancel()

    assert {type(outcome) for outcome in outcomes} == {Sent}
    assert max(gaps) < 0.2


@pytest.mark.parametrize("rig", [MailRig], indirect=True)
async def test_a_mail_command_has_its_fields(rig: MailRig) -> None:
    message = rig.message("ada", locale="fr")
    await rig.provider(source="notification").send([message], now=NOW)

    ((_, fields),) = await rig.entries()
    assert msgspec.json.decode(fields[b"payload_json"]) == {
        "to": ["ada"],
        "cc": [],
        "bcc": [],
        "reply_to": [],
        "attachments": [],
        "template_id": "new_customer",
        "locale": "fr",
        "variables": {"game_id": "g-7", "turn_number": 12},
    }
    assert {name: value for name, value in fields.items() if name != b"payload_json"} == {
        b"delivery_id": f"{ENTRY_ID}/push:user:ada".encode(),
        b"source": b"notification",
        b"payload_mode": b"template",
        b"idempotency_key": f"notification:{ENTRY_ID}/push:user:ada".encode(),
        b"requested_at_ms": str(int(NOW.timestamp() * 1_000)).encode(),
        b"request_id": b"request-1",
        b"trace_id": b"trace-1",
    }


async def test_ids_that_are_not_known_are_left_out(rig: StreamRig) -> None:
    message = rig.message("ada", request_id=None, trace_id=None)
    await rig.provider().send([message], now=NOW)

    ((_, fields),) = await rig.entries()
    assert not {b"request_id", b"trace_id", b"device_session_id"} & fields.keys()


@pytest.mark.parametrize("name", ["gateway_stream", "mail_stream"])
def test_the_page_lists_what_speaks_against_the_server(name: str) -> None:
    page = (REFERENCE / f"{name}.md").read_text("utf-8")

    (row, *_) = re.findall(rf"^\| (.*) \| `{name}_publish_failed` \| `defer` \|", page, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", row)) == (*NOT_READY, "LOADING")
