"""One port shows the metrics of every process, and has all that the dashboard and the alerts read."""

import signal

import httpx
import msgspec
import pytest

from tests.acceptance.telemetry.deployed import wanted_names
from tests.acceptance.telemetry.site import PEOPLE, Site
from tests.waiting import found
from tocsin.sandbox import Refuse

BESIDE = (
    "tocsin_gateway_",
    "tocsin_archive_",
    "tocsin_sqs_",
    "tocsin_topic_",
    "tocsin_personal_data_suspected_total",
)
"""Of processes beside the tree, or of what needs AWS; their own tests read them."""


async def test_counters_outlive_the_process_that_counted(site: Site) -> None:
    name = "tocsin_deliveries_settled_total"
    await site.settled()
    sent = await site.pool.fetchval("select count(*) from deliveries where state in ('sent', 'delivered')")
    before = await site.reaches(sent, name, state="sent")
    assert await site.value("tocsin_processes", kind="worker") == 1

    site.process.children()["worker"].send_signal(signal.SIGKILL)
    await site.reaches(1, "tocsin_process_restarts_total", kind="worker")
    assert await site.value(name, state="sent") == before
    await site.reaches(1, "tocsin_processes", kind="worker")

    await site.http.delivery_in(await site.http.notify("ada"), "sent")
    await site.reaches(before + 1, name, state="sent")


async def test_everything_that_the_dashboard_and_the_alerts_read_has_a_value(site: Site) -> None:
    site.sandbox.faults_of("apns").script(PEOPLE["kerem"][0], Refuse("InvalidProviderToken"))
    await site.http.notify("kerem")
    # Receipts of Expo are asked for after a quarter of an hour.
    await site.pool.execute("update tickets set ask_at = now()")
    missing: set[str] = set()

    async def look() -> bool:
        nonlocal missing
        without = wanted_names() - {name for name, _ in await site.scrape()}
        missing = {name for name in without if not name.startswith(BESIDE)}
        return not missing

    try:
        await found(look, within=40)
    except TimeoutError:
        pytest.fail(f"without a value: {sorted(missing)}")
    assert await site.value("tocsin_circuit_open", provider="apns") == 1
    assert await site.value("tocsin_alarms", code="InvalidProviderToken") == 1


async def test_counts_match_what_happened(site: Site) -> None:
    settled = "tocsin_deliveries_settled_total"
    for provider in ("fcm", "apns", "expo", "webpush", "smtp", "webhook"):
        await site.reaches(1, settled, provider=provider, state="sent")
    assert await site.value(settled, state="gone", provider="fcm", type="new_customer") == 1
    assert await site.value(settled, state="rejected", provider="fcm") == 1
    assert await site.value(settled, state="dead", channel="webhook", type="everywhere") == 1
    assert await site.value(settled, state="skipped", reason="no_endpoint") == 2
    assert await site.value("tocsin_intents_refused_total", type="other") == 1
    assert await site.value("tocsin_intents_refused_total", type="new_customer") == 1
    assert await site.value("tocsin_intents_duplicate_total", source="http") == 1
    assert await site.value("tocsin_relay_rows_total", outbox="shop", result="published") == 1
    assert await site.value("tocsin_attempts_failed_total", code="UNREGISTERED") == 1


async def test_no_label_has_a_person_an_address_or_a_token(site: Site) -> None:
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{site.address}/metrics")).text
        elsewhere = await client.get(f"{site.address}/")

    assert not [secret for secret in {*site.secrets, *PEOPLE} if secret in text]
    assert elsewhere.status_code == 404


async def test_every_settled_delivery_is_a_line_without_a_secret(site: Site) -> None:
    lines = [msgspec.json.decode(line) for line in site.process.log if line.startswith("{")]
    settled = [line for line in lines if line["event"] == "delivery settled"]
    states = await site.pool.fetch("select id, state from deliveries where settled_at is not null")

    ended = {str(row["id"]): row["state"] for row in states}
    assert ended.keys() <= {line["delivery_id"] for line in settled}
    assert {line["state"] for line in settled} >= {"sent", "gone", "rejected", "dead", "skipped"}
    assert {line["level"] for line in settled if line["state"] == "dead"} == {"error"}
    assert {line["level"] for line in settled if line["state"] != "dead"} == {"info"}
    confirmed = {line["delivery_id"] for line in lines if line["event"] == "delivery confirmed"}
    assert confirmed == {key for key, state in ended.items() if state == "delivered"}
    assert len(lines) > 100
    assert not [line for line in site.process.log for secret in site.secrets if secret in line]
