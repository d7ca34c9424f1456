"""The page of types: the catalog, toggles, previews and explaining an intent."""

import html
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge
from tests.rows import add_device, add_held, add_user, delivery
from tocsin.api.auth.roles import Role
from tocsin.store import receipts
from tocsin.store.receipts import CountedType
from tocsin.store.toggles import history

PATH = "/dashboard/types"
TOGGLES = f"{PATH}/toggles"
TYPE = f"{PATH}/named/new_customer"
HOSTILE = "<script>alert(1)</script>\"'"
PAYLOAD = json.dumps({"customer_name": HOSTILE})


async def test_a_type_is_switched_off_with_a_reason_and_on_again(edge: Edge) -> None:
    held = await add_held(edge.pool, "type:new_customer")
    visit = await signed_in(edge, Role.OPERATOR)

    off = await visit.post(
        TOGGLES, name="type:new_customer", enabled="false", reason=HOSTILE, back="new_customer"
    )

    assert (off.status_code, off.headers["location"]) == (303, TYPE)
    for path in (PATH, TYPE, f"{TOGGLES}/type:new_customer"):
        shown = await visit.shown(path)
        assert html.escape(HOSTILE).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in shown
        assert "<script>alert" not in shown
        assert "console (key " in shown
    on = await visit.post(TOGGLES, name="type:new_customer", enabled="true", reason="fixed", discard="true")
    assert on.headers["location"] == PATH
    assert "1 were cancelled." in await visit.shown(PATH)
    assert (await delivery(edge.pool, held))["state"] == "cancelled"
    changes = await history(edge.pool, "type:new_customer")
    assert [(change.enabled, change.reason) for change in changes] == [(True, "fixed"), (False, HOSTILE)]


async def test_held_deliveries_are_counted(edge: Edge) -> None:
    for _ in range(3):
        await add_held(edge.pool, "channel:push")
    visit = await signed_in(edge, Role.OPERATOR)

    await visit.post(TOGGLES, name="channel:push", enabled="false", reason="outage")

    shown = await visit.shown(PATH)
    assert "channel:push is off; 3 deliveries wait." in shown
    assert re.search(r'invoice_due</a>.*?data-kind="bad">off', shown, re.DOTALL)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "type:new_customer", "enabled": "false"},
        {"name": "type:new_customer", "enabled": "maybe", "reason": "a"},
        {"name": HOSTILE, "enabled": "false", "reason": "a"},
        {"name": "type:new_customer", "enabled": "false", "reason": "a", "discard": "true"},
        {"name": "type:new_customer", "enabled": "false", "reason": "a" * 501},
    ],
)
async def test_a_switch_with_faults_changes_nothing(edge: Edge, fields: dict[str, str]) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    answer = await visit.post(TOGGLES, **fields)

    assert (answer.status_code, "<script>alert" in answer.text) == (422, False)
    assert await history(edge.pool) == []


async def test_the_form_leads_back_to_types_only(edge: Edge) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    for back in ("//example.org", "../../v1", "unknown"):
        answer = await visit.post(TOGGLES, name="channel:push", enabled="true", reason="a", back=back)
        assert answer.headers["location"] == PATH


async def test_every_message_is_shown_in_every_locale(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)

    shown, mail = await visit.shown(TYPE), await visit.shown(f"{PATH}/named/invoice_due")

    for locale in ("en", "fa", "ko", "tr", "vi"):
        assert f'aria-label="push in {locale}"' in shown
    for locale in ("en", "tr"):
        assert f'aria-label="email in {locale}"' in mail


async def test_another_payload_is_rendered_and_escaped(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)

    answer = await visit.post(f"{TYPE}/preview", payload=PAYLOAD)

    assert answer.status_code == 200
    assert "&lt;script&gt;alert(1)" in answer.text
    assert "<script>alert" not in answer.text
    for payload in ("{", "[]", "{}", "[" * 10_000, '{"customer_name": 7}'):
        assert (await visit.post(f"{TYPE}/preview", payload=payload)).status_code == 422
    assert (await visit.get(f"{PATH}/named/unknown")).status_code == 404


async def test_an_intent_is_explained_and_nothing_is_accepted(edge: Edge) -> None:
    await add_user(edge.pool, "ada", timezone="Europe/Istanbul")
    await add_device(edge.pool, "ada")
    visit = await signed_in(edge, Role.ADMIN)

    answer = await visit.post(f"{TYPE}/explain", recipient="ada", payload=PAYLOAD, at="2030-01-31T22:30")

    assert answer.status_code == 200
    assert "What would happen at 2030-01-31 22:30:00 UTC" in answer.text
    assert "push:user:ada" in answer.text
    assert "2030-02-01" in answer.text
    mail = {"kind": "emails", "recipient": "ada@example.org", "payload": PAYLOAD}
    assert "push:email:ada@example.org" in (await visit.post(f"{TYPE}/explain", **mail)).text
    assert await edge.pool.fetchval("select count(*) from notifications") == 0
    for at in ("soon", "0001-01-01T00:00", "9999-12-31T23:59"):
        fields = {"recipient": "ada", "payload": PAYLOAD, "at": at}
        assert (await visit.post(f"{TYPE}/explain", **fields)).status_code == 422


async def test_the_catalog_is_read_again_on_request(edge: Edge) -> None:
    visit = await signed_in(edge, Role.OPERATOR)

    await visit.post(f"{PATH}/reload")

    assert "No process runs that could read it." in await visit.shown(PATH)


async def test_a_viewer_sees_types_and_changes_nothing(edge: Edge) -> None:
    visit = await signed_in(edge, Role.VIEWER)

    for path in (PATH, TYPE):
        shown = await visit.shown(path)
        assert f'action="{TOGGLES}"' not in shown
        assert f'action="{TYPE}/explain"' not in shown
    fields = {"name": "type:new_customer", "enabled": "false", "reason": "a"}
    assert (await visit.post(TOGGLES, **fields)).status_code == 403
    assert (await visit.post(f"{PATH}/reload")).status_code == 403
    explain = {"recipient": "ada", "payload": PAYLOAD}
    assert (await visit.post(f"{TYPE}/explain", **explain)).status_code == 403
    assert await history(edge.pool) == []


async def test_types_have_their_delivery_and_open_rates(edge: Edge) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    counts = {
        CountedType(today, "new_customer", "push", "sent"): 2_000,
        CountedType(today, "new_customer", "push", "delivered"): 1_500,
        CountedType(today, "new_customer", "push", "opened"): 250,
        CountedType(today - timedelta(days=29), "new_customer", "push", "dismissed"): 7,
        CountedType(today - timedelta(days=40), "new_customer", "push", "sent"): 9_999,
        CountedType(today, "invoice_due", "email", "sent"): 3,
    }
    async with edge.pool.acquire() as connection:
        await receipts.count(connection, counts)
    visit = await signed_in(edge, Role.VIEWER)

    every, one = await visit.shown(PATH), await visit.shown(TYPE)

    rates = [rows_of(shown.partition('id="rates"')[2]) for shown in (every, one)]
    push = ["push", "2,000", "1,500 75.0 %", "250 12.5 %", "7"]
    assert rates == [
        [["invoice_due", "email", "3", "0 0.0 %", "0 0.0 %", "0"], ["new_customer", *push]],
        [push],
    ]
    other = await visit.shown(f"{PATH}/named/message")
    assert "Nothing was sent in the last 30 days." in other


def rows_of(page: str) -> list[list[str]]:
    """Return the texts of the cells of the first table."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]
