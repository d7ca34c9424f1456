"""`tocsin catalog new` and `preview`, and `tocsin refused`, as an operator runs them."""

import asyncio
import shlex
from pathlib import Path

import msgspec

from tests.edges.command_line import Ran, run
from tocsin.catalog.check import check
from tocsin.domain.ids import uuid7
from tocsin.store.pool import Pool
from tocsin.store.sources.refused import RefusedIntent, record

FIELDS = ("--field", "order_id", "--field", "amount:number", "--field", "due_on:date?")


def tocsin(folder: Path, *arguments: str) -> Ran:
    return run(["catalog", *arguments], {}, folder)


def test_a_new_type_has_no_faults_and_can_be_previewed(tmp_path: Path) -> None:
    channels = ("--channel", "push", "--channel", "email", "--channel", "webhook")
    made = tocsin(
        tmp_path, "new", "order_paid", "--folder", ".", "--category", "orders", *channels, *FIELDS, "--json"
    )

    assert (made.code, len(made.json["files"])) == (0, 6)
    report = check(tmp_path)
    assert report.faults == ()
    assert (report.types[0].name, report.types[0].category) == ("order_paid", "orders")

    shown = tocsin(tmp_path, "preview", "order_paid", "--folder", ".", "--json")
    assert [message["channel"] for message in shown.json["messages"]] == ["push", "email", "webhook"]
    assert shown.json["messages"][0]["parts"] == {
        "title": "Order paid",
        "body": "Order id: Order id\nAmount: 1\nDue on: 2031-05-17",
    }


def test_the_command_that_follows_a_new_type_finds_its_folder(tmp_path: Path) -> None:
    made = tocsin(tmp_path, "new", "order_paid", "--folder", "my catalog")
    _, advice = made.out.rstrip().rsplit("then run: tocsin catalog ", 1)

    assert tocsin(tmp_path, *shlex.split(advice)).code == 0


def test_a_type_is_shown_by_its_audiences_and_previewed_as_far_as_it_has_texts(tmp_path: Path) -> None:
    channels = ("--channel", "push", "--channel", "email")
    assert tocsin(tmp_path, "new", "submitted", "--folder", ".", *channels, "--field", "game").code == 0
    declared = tmp_path / "types/submitted.yaml"
    sections = (
        "  audiences: {users: [push, email], admins: [email]}\n  event: {table: Submitted, fields: [game]}\n"
    )
    declared.write_text(declared.read_text() + sections)
    for text in (tmp_path / "templates/submitted/en").glob("push.*"):
        text.unlink()

    checked = tocsin(tmp_path, "check", ".")
    as_json = tocsin(tmp_path, "check", ".", "--json")
    shown = tocsin(tmp_path, "preview", "submitted", "--folder", ".", "--json")
    nothing = tocsin(tmp_path, "preview", "submitted", "--folder", ".", "--channel", "push")

    assert (checked.code, "users: push, email; admins: email" in checked.out) == (0, True)
    assert as_json.json["types"][0]["audiences"] == {"users": ["push", "email"], "admins": ["email"]}
    assert [message["channel"] for message in shown.json["messages"]] == ["email"]
    assert (nothing.code, "has no texts for push" in nothing.said) == (1, True)


def test_a_type_that_exists_is_left_alone(tmp_path: Path) -> None:
    assert tocsin(tmp_path, "new", "order_paid", "--folder", ".").code == 0
    title = tmp_path / "templates/order_paid/en/push.title.j2"
    title.write_text("Thank you")

    again = tocsin(tmp_path, "new", "order_paid", "--folder", ".", "--channel", "email")

    assert again.code == 1
    assert "types/order_paid.yaml exists already; nothing was written." in again.said
    assert title.read_text() == "Thank you"
    assert not (tmp_path / "templates/order_paid/en/email.text.j2").exists()


def test_every_mistake_is_listed_and_nothing_is_written(tmp_path: Path) -> None:
    wrong = tocsin(
        tmp_path, "new", "Order", "--folder", ".", "--category", "1", "--channel", "sms", "--field", "a:b"
    )
    assert wrong.code == 2
    for part in ("TYPE: 'Order'", "--category: '1'", "'sms' is none of push", "'b' is not a type of field"):
        assert part in wrong.said
    for locale in ("no such", "../../../../climbed", str(tmp_path / "climbed")):
        nowhere = tocsin(tmp_path, "new", "order_paid", "--folder", ".", "--locale", locale)
        assert nowhere.code == 2
        assert f"--locale: {locale!r} is not a locale" in nowhere.said
    assert list(tmp_path.iterdir()) == []

    shipped = tocsin(tmp_path, "new", "order_paid")
    assert shipped.code == 2
    assert "--folder" in shipped.said


def test_a_preview_is_in_one_language_or_all_with_a_payload_of_your_own(tmp_path: Path) -> None:
    every = tocsin(tmp_path, "preview", "invoice_due", "--json")
    assert {(each["channel"], each["locale"]) for each in every.json["messages"]} == {
        ("push", "en"),
        ("push", "tr"),
        ("email", "en"),
        ("email", "tr"),
    }

    payload = '{"invoice_number": "INV-7", "amount": "5.00", "currency": "EUR", "due_on": "2030-02-03"}'
    one = tocsin(
        tmp_path, "preview", "invoice_due", "--locale", "tr", "--channel", "push", "--payload", payload
    )
    assert one.code == 0
    assert "Tutar: €5,00" in one.said

    wrong = tocsin(tmp_path, "preview", "invoice_due", "--payload", '{"amount": 5}')
    assert wrong.code == 2
    assert "payload.amount" in wrong.said
    assert "payload.invoice_number" in wrong.said
    assert "has no channel 'sms'" in tocsin(tmp_path, "preview", "invoice_due", "--channel", "sms").said
    assert "'nope' is not in the catalog" in tocsin(tmp_path, "preview", "nope").said
    for text in ("[", '{"a":' * 2_000 + "1" + "}" * 2_000):
        assert "must be a JSON object" in tocsin(tmp_path, "preview", "message", "--payload", text).said


def test_a_preview_shows_the_attributes_of_a_user(tmp_path: Path) -> None:
    assert tocsin(tmp_path, "new", "plan_changed", "--folder", ".").code == 0
    declaration = tmp_path / "types/plan_changed.yaml"
    declared = "  attributes: {plan: {type: string, default: free, examples: [pro]}}\n"
    declaration.write_text(declaration.read_text() + declared)
    (tmp_path / "templates/plan_changed/en/push.title.j2").write_text("You have {{ user.attributes.plan }}")

    def title(*more: str) -> str:
        shown = tocsin(tmp_path, "preview", "plan_changed", "--folder", ".", "--json", *more)
        text: str = shown.json["messages"][0]["parts"]["title"]
        return text

    assert (title(), title("--attributes", "{}")) == ("You have pro", "You have free")
    assert title("--attributes", '{"plan": "team"}') == "You have team"
    given = '{"plan": 7, "plam": "pro"}'
    wrong = tocsin(tmp_path, "preview", "plan_changed", "--folder", ".", "--attributes", given)
    assert wrong.code == 2
    assert "attributes.plan:" in wrong.said
    assert "attributes.plam: is not declared by plan_changed v1, which has: plan" in wrong.said


def test_the_page_escapes_what_a_payload_has(tmp_path: Path) -> None:
    payload = '{"title": "<script>alert(1)</script>", "body": "Tom & Jerry"}'

    assert tocsin(tmp_path, "preview", "message", "--payload", payload, "--html", "page.html").code == 0

    page = (tmp_path / "page.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "Tom &amp; Jerry" in page


async def test_refused_intents_are_listed_with_their_faults(
    database_url: str, pool: Pool, tmp_path: Path
) -> None:
    faults = [f'{{"field": "payload.f{number}", "code": "x", "message": "is wrong"}}' for number in range(5)]
    async with pool.acquire() as connection:
        now = await connection.fetchval("select now()")
        row = RefusedIntent(
            id=uuid7(),
            producer="shop",
            source="http",
            code="invalid_intent",
            type="order_paid",
            idempotency_key="k\n\x1b[2J",
            faults=f"[{','.join(faults)}]",
            content="{}",
            refused_at=now,
        )
        conflict = msgspec.structs.replace(
            row,
            id=uuid7(),
            producer="game_master",
            source="redis_streams",
            code="idempotency_conflict",
            type="game.turn.ready",
            idempotency_key="game-7:turn-42:a-key-that-is-longer-than-what-is-left-of-a-line",
            faults=f'[{{"notification_id": "{row.id}"}}]',
            content='{"stream_entry_id":"1700000000000-0","fields":{"payload_json":"cut',
        )
        await record(connection, [row, conflict])

    async def refused(*arguments: str) -> Ran:
        environment = {"TOCSIN_DATABASE_URL": database_url}
        return await asyncio.to_thread(run, ["refused", *arguments], environment, tmp_path)

    listed = await refused()
    assert listed.code == 0, listed.err
    assert listed.out.splitlines() == [
        f"{now:%Y-%m-%d %H:%M:%SZ}  idempotency_conflict  game.turn.ready  from game_master",
        f"  key {conflict.idempotency_key}, stream entry 1700000000000-0",
        f"  idempotency_key: was used before, with other content, by {row.id}",
        f"{now:%Y-%m-%d %H:%M:%SZ}  invalid_intent  order_paid  from shop",
        r"  key k\n\x1b[2J",
        "  payload.f0: is wrong",
        "  payload.f1: is wrong",
        "  payload.f2: is wrong",
        "  2 more",
    ]
    assert [each["refused_id"] for each in (await refused("--json")).json] == [str(conflict.id), str(row.id)]
    assert (await refused("--before", str(row.id))).out == "No intent was refused.\n"
