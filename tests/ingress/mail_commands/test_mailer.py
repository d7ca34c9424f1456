"""The mailer between a real Redis and a mail server."""

from datetime import UTC, datetime, timedelta

from tests.ingress.mail_commands.commands import command
from tests.ingress.mail_commands.conftest import Post
from tocsin.sandbox import Refuse

KEY = "notification:1700000000000-0/email:user:"


async def test_a_command_becomes_a_mail_in_its_language(post: Post) -> None:
    first = await post.append(command("1", request_id="r-1"))
    await post.append(command("2", {"locale": "xx", "to": ["ops@example.com"]}))
    async with post.running():
        mails = {mail["to"]: mail for mail in await post.mails(2)}
        shown = await post.shown(f"{KEY}1", "sent")
        printed = await post.tocsin("show", first)

    assert f"stream entry {first}, reference 1700000000000-0/email:user:1" in printed.said
    turkish, english = mails["Ada@example.com"], mails["ops@example.com"]
    assert turkish["subject"].startswith("INV-1 numaral")
    assert english["subject"].startswith("Invoice INV-1 is due")
    assert turkish["headers"]["X-Delivery-Id"] == "1700000000000-0/email:user:1"
    assert turkish["headers"]["From"] == "Galaxy <notify@galaxy.example>"
    (delivery,) = shown["deliveries"]
    assert turkish["headers"]["Message-ID"] == delivery["provider_message_id"]
    assert (shown["external_id"], shown["reference"], shown["request_id"], shown["locale"]) == (
        first,
        "1700000000000-0/email:user:1",
        "r-1",
        "tr",
    )
    assert (shown["producer"], shown["type"], shown["occurred_at"]) == (
        "notification",
        "invoice_due",
        "2026-01-01T00:00:00.123000Z",
    )


async def test_a_repeated_command_sends_nothing_and_another_one_under_its_key_is_refused(post: Post) -> None:
    await post.append(command("1"))
    async with post.running():
        await post.shown(f"{KEY}1", "sent")
    await post.append(command("1", request_id="again", trace_id="again"))
    await post.append(command("1", {"to": ["mallory@example.com"]}))
    last = await post.append(command("2"))
    async with post.running():
        await post.reaches(last)
        await post.shown(f"{KEY}2", "sent")

    assert [mail["to"] for mail in await post.mails(2)] == ["Ada@example.com"] * 2
    assert [code for code, _ in await post.refused()] == ["idempotency_conflict"]


async def test_what_cannot_be_sent_is_refused_and_holds_up_nothing(post: Post) -> None:
    await post.append(command("1", payload_mode="raw"))
    await post.append(command("2", {"cc": ["bob@example.com"]}))
    await post.append(command("3", {"template_id": "new_customer"}))
    await post.append(command("4", {"variables": {"invoice_number": "INV-1"}}))
    await post.append({"hello": "world"})
    await post.append(command("5"))
    async with post.running():
        await post.shown(f"{KEY}5", "sent")

    refused = await post.refused()
    assert [(code, faults[0]["field"], faults[0]["code"]) for code, faults in refused] == [
        ("unsupported", "payload_mode", "unsupported"),
        ("unsupported", "payload_json.cc", "unsupported"),
        ("unknown_type", "type", "unknown_type"),
        ("invalid_payload", "payload.amount", "missing"),
        ("invalid_intent", "delivery_id", "missing"),
    ]
    assert len(await post.mails(1)) == 1


async def test_a_mail_is_retried_and_ends_as_a_dead_letter_that_can_be_replayed(post: Post) -> None:
    mailbox = "Ada@example.com"
    post.sandbox.faults_of("smtp").script(mailbox, Refuse("450 4.2.1"), repeat=True)
    await post.append(command("1"))
    async with post.running():
        shown = await post.shown(f"{KEY}1", "dead")
        (delivery,) = shown["deliveries"]
        assert (delivery["attempt_count"], delivery["last_error_code"]) == (3, "450 4.2.1")
        (dead,) = (await post.tocsin("dead", "list", "--json")).json["groups"]
        assert (dead["type"], dead["code"], dead["count"]) == ("invoice_due", "450 4.2.1", 1)

        post.sandbox.faults_of("smtp").unscript(mailbox)
        replayed = await post.tocsin("dead", "replay", delivery["delivery_id"])
        assert replayed.code == 0, replayed.said
        (mail,) = await post.mails(1)
        assert mail["headers"]["X-Delivery-Id"] == "1700000000000-0/email:user:1"
        await post.shown(f"{KEY}1", "sent")


async def test_several_mailers_send_each_command_once(post: Post) -> None:
    keys = [str(number) for number in range(30)]
    async with post.running(), post.running():
        for key in keys:
            await post.append(command(key, {"to": [f"{key}@example.com"]}))
        await post.mails(len(keys))
        await post.shown(f"{KEY}29", "sent")

    assert post.sandbox.stats("smtp").distinct_deliveries == post.sandbox.stats("smtp").delivered == len(keys)


async def test_quiet_hours_were_the_sender_s_to_keep(post: Post) -> None:
    opens = datetime.now(UTC) + timedelta(hours=2)
    post.environment |= {
        "TOCSIN_QUIET_HOURS__DEFAULT_TIMEZONE": "UTC",
        "TOCSIN_QUIET_HOURS__START": f"{opens:%H:%M}",
        "TOCSIN_QUIET_HOURS__END": f"{opens + timedelta(hours=1):%H:%M}",
        "TOCSIN_QUIET_HOURS__CHANNELS": "email",
    }
    await post.append(command("1"))
    async with post.running():
        assert len(await post.mails(1)) == 1
