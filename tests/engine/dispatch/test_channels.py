from datetime import timedelta
from typing import Any

from tests.engine.stage import Stage, a_provider, an_intent
from tests.rows import add_device
from tests.waiting import found, until
from tocsin.domain.delivery.outcome import Gone, Retry
from tocsin.domain.intent import Audience
from tocsin.domain.people.unsubscribe import UnsubscribeSettings
from tocsin.engine.accept.answers import Accepted
from tocsin.engine.dispatch.settings import DispatchSettings

EVERYWHERE = {"push": ("fcm",), "email": ("smtp",), "webhook": ("webhook",)}
LINKS = UnsubscribeSettings(secret="s" * 32, base_url="https://notify.example.com")


async def accepted(stage: Stage, **changes: Any) -> Any:
    (answer,) = await stage.an_acceptor(EVERYWHERE).accept("shop", [an_intent(**changes)])
    assert isinstance(answer, Accepted), answer
    return answer.notification_id


async def has_mail(stage: Stage, user_id: str, email: str | None, locale: str = "en") -> None:
    await stage.pool.execute(
        "insert into users (user_id, email, locale, updated_at) values ($1, $2, $3, now())",
        user_id,
        email,
        locale,
    )


def by_channel(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    return {row["channel"]: (row["state"], row["reason"]) for row in rows}


async def test_each_channel_goes_its_own_way(stage: Stage) -> None:
    push, mail, hook = a_provider("fcm"), a_provider("smtp"), a_provider("webhook")
    await stage.device("ada")
    await has_mail(stage, "ada", "Ada@example.com")
    await add_device(
        stage.pool,
        "ada",
        token="https://ada.example/hook",
        provider="webhook",
        platform="server",
        secret="whsec_x",
    )
    async with stage.working(push, mail, hook, unsubscribe=LINKS):
        sent = await stage.settled(await accepted(stage, type="everywhere", payload={"text": "Fire"}), "sent")

    assert by_channel(sent) == {"push": ("sent", None), "email": ("sent", None), "webhook": ("sent", None)}
    (pushed,), (mailed,), (hooked,) = push.arrived, mail.arrived, hook.arrived
    assert (pushed.target, pushed.title) == ("ada", "Alert")
    assert (mailed.target, mailed.title, mailed.body) == ("Ada@example.com", "Alert Fire", "It says: Fire")
    assert mailed.html == '<html><head></head><body><p style="color: red;">Fire</p></body></html>'
    assert mailed.headers["List-Unsubscribe"].startswith("<https://notify.example.com/v1/unsubscribe/")
    assert (hooked.target, hooked.payload, hooked.secret) == (
        "https://ada.example/hook",
        {"text": "Fire"},
        "whsec_x",
    )


async def test_a_bare_address_gets_mail_and_no_link_to_leave(stage: Stage) -> None:
    mail = a_provider("smtp")
    async with stage.working(mail, unsubscribe=LINKS):
        audience = Audience(emails=["ops@example.com"])
        rows = await stage.settled(
            await accepted(stage, type="everywhere", audience=audience, payload={}), "sent", "skipped"
        )

    assert by_channel(rows)["push"] == ("skipped", "channel_not_for_recipient")
    assert mail.arrived[0].target == "ops@example.com"
    assert mail.arrived[0].headers == {}


INVOICE = {"invoice_number": "INV-1", "amount": "9.50", "currency": "EUR", "due_on": "2031-05-02"}


async def test_the_language_of_an_intent_is_for_those_who_have_none_of_their_own(stage: Stage) -> None:
    mail = a_provider("smtp")
    await has_mail(stage, "ada", "ada@example.com", locale="en")
    asked: dict[str, Any] = {"type": "invoice_due", "payload": INVOICE, "locale": "tr_TR"}
    async with stage.working(mail):
        for number, audience in enumerate((Audience(emails=["ops@example.com"]), Audience(users=["ada"]))):
            notification_id = await accepted(stage, audience=audience, idempotency_key=str(number), **asked)
            await stage.settled(notification_id, "sent", "skipped")

    assert {each.target: each.locale for each in mail.arrived} == {
        "ops@example.com": "tr",
        "ada@example.com": "en",
    }


async def test_who_has_no_address_and_no_endpoint_is_told_so(stage: Stage) -> None:
    await has_mail(stage, "ada", None)
    async with stage.working(a_provider("smtp"), a_provider("webhook")):
        notification_id = await accepted(stage, type="everywhere", payload={})

        async def settled() -> bool:
            rows = by_channel(await stage.deliveries(notification_id))
            return rows["email"][0] == rows["webhook"][0] == "skipped"

        await found(settled)

    rows = by_channel(await stage.deliveries(notification_id))
    assert rows["email"] == ("skipped", "no_address")
    assert rows["webhook"] == ("skipped", "no_endpoint")


async def test_an_address_that_bounced_is_written_to_no_more(stage: Stage) -> None:
    mail = a_provider("smtp")
    await has_mail(stage, "ada", "Ada@Example.com")
    mail.script("Ada@Example.com", Gone("550 5.1.1", "no such user"))
    audience = Audience(emails=["ada@example.com"])
    async with stage.working(mail):
        first = await accepted(stage, type="mail_only", payload={})
        (gone,) = await stage.settled(first, "gone")
        second = await accepted(
            stage, type="mail_only", audience=audience, payload={}, idempotency_key="again"
        )
        (skipped,) = await stage.settled(second, "skipped")

    (row,) = await stage.pool.fetch("select * from suppressed_addresses")
    assert (row["address"], row["reason"], row["delivery_id"]) == (
        "ada@example.com",
        "gone: 550 5.1.1",
        gone["id"],
    )
    assert skipped["reason"] == "address_suppressed"
    assert len(mail.arrived) == 1


async def test_an_endpoint_is_no_device_and_a_device_no_endpoint(stage: Stage) -> None:
    push, hook = a_provider("fcm"), a_provider("webhook")
    await add_device(
        stage.pool, "ada", token="https://ada.example/hook", provider="webhook", platform="server"
    )
    async with stage.working(push, hook):
        notification_id = await accepted(stage, type="everywhere", payload={})
        await until(lambda: len(hook.arrived) == 1)

        async def skipped() -> bool:
            return by_channel(await stage.deliveries(notification_id))["push"] == ("skipped", "no_device")

        await found(skipped)
    assert not push.arrived


async def test_an_endpoint_that_is_gone_is_retired(stage: Stage) -> None:
    hook = a_provider("webhook")
    endpoint = await add_device(
        stage.pool, "ada", token="https://ada.example/hook", provider="webhook", platform="server"
    )
    hook.script("https://ada.example/hook", Gone("410"))
    async with stage.working(hook):
        notification_id = await accepted(stage, type="hook_only", payload={})
        await stage.settled(notification_id, "gone")

    reason = await stage.pool.fetchval("select retired_reason from devices where id = $1", endpoint)
    assert reason == "gone: 410"


async def test_a_topic_is_one_message_to_its_followers(stage: Stage) -> None:
    fcm, apns = a_provider("fcm"), a_provider("apns")
    async with stage.working(fcm, apns):
        notification_id = await accepted(stage, audience=Audience(topic="news"))
        (row,) = await stage.settled(notification_id, "sent")

    (message,) = fcm.arrived
    assert (message.target, message.target_kind) == ("news", "topic")
    assert (row["address"], row["device_id"], row["provider"]) == ("topic:news", None, "fcm")


async def test_a_condition_is_one_message_too(stage: Stage) -> None:
    fcm = a_provider("fcm")
    condition = "'dogs' in topics || 'cats' in topics"
    async with stage.working(fcm):
        await stage.settled(await accepted(stage, audience=Audience(condition=condition)), "sent")

    assert (fcm.arrived[0].target, fcm.arrived[0].target_kind) == (condition, "condition")


async def test_a_device_that_registered_after_it_was_called_gone_stays(stage: Stage) -> None:
    apns = a_provider("apns")
    device = await stage.device("ada", provider="apns")
    before = stage.clock() - timedelta(days=2)
    apns.script("ada", Gone("Unregistered", since=before))
    async with stage.working(apns):
        notification_id = await stage.accept("ada", type="plain", payload={})
        await until(lambda: len(apns.arrived) == 1)
        stage.clock.advance(timedelta(seconds=15))
        (sent,) = await stage.settled(notification_id, "sent")

    assert sent["attempts"] == 2
    assert await stage.attempts() == [("retry", "registered_again")]
    assert await stage.pool.fetchval("select retired_at from devices where id = $1", device) is None


async def test_a_device_not_seen_since_is_retired(stage: Stage) -> None:
    apns = a_provider("apns")
    device = await stage.device("ada", provider="apns")
    apns.script("ada", Gone("Unregistered", since=stage.clock() - timedelta(minutes=5)))
    async with stage.working(apns):
        await stage.settled(await stage.accept("ada"), "gone")

    reason = await stage.pool.fetchval("select retired_reason from devices where id = $1", device)
    assert reason == "gone: Unregistered"


async def test_push_that_was_not_sent_in_time_becomes_mail(stage: Stage) -> None:
    push, mail = a_provider("fcm"), a_provider("smtp")
    await stage.device("ada")
    await has_mail(stage, "ada", "ada@example.com")
    push.script("ada", *[Retry("UNAVAILABLE", after=timedelta(hours=1))] * 3)
    async with stage.working(push, mail):
        notification_id = await accepted(stage, type="must_know", payload={})
        await until(lambda: len(push.arrived) == 1)
        stage.clock.advance(timedelta(minutes=9))
        assert not mail.arrived

        stage.clock.advance(timedelta(minutes=2))
        await until(lambda: len(mail.arrived) == 1)
        await stage.settled(notification_id, "sent", "cancelled")
        # The hour of its next attempt passes.
        stage.clock.advance(timedelta(hours=2))
        other = await accepted(stage, type="everywhere", payload={}, idempotency_key="other")
        await until(lambda: any(message.notification_id == other for message in push.arrived))

    rows = await stage.deliveries(notification_id)
    assert by_channel(rows) == {"push": ("cancelled", "superseded_by_failover"), "email": ("sent", None)}
    assert [message.notification_id for message in push.arrived].count(notification_id) == 1


async def test_push_that_fails_after_the_mail_was_sent_is_not_tried_again(stage: Stage) -> None:
    push, mail = a_provider("fcm"), a_provider("smtp")
    await stage.device("ada")
    await has_mail(stage, "ada", "ada@example.com")
    push.script("ada", Retry("UNAVAILABLE"))
    push.hold()
    patient = DispatchSettings(poll_seconds=0.02, lease_seconds=3_600, stop_seconds=10)
    async with stage.working(push, mail, settings=patient):
        notification_id = await accepted(stage, type="must_know", payload={})
        await until(lambda: len(push.arrived) == 1)
        stage.clock.advance(timedelta(minutes=11))
        await until(lambda: len(mail.arrived) == 1)
        push.let_go.set()
        rows = await stage.settled(notification_id, "sent", "cancelled")

    assert by_channel(rows) == {"push": ("cancelled", "superseded_by_failover"), "email": ("sent", None)}


async def test_push_that_was_sent_in_time_needs_no_mail(stage: Stage) -> None:
    push, mail = a_provider("fcm"), a_provider("smtp")
    await stage.device("ada")
    await has_mail(stage, "ada", "ada@example.com")
    async with stage.working(push, mail):
        notification_id = await accepted(stage, type="must_know", payload={})

        async def confirmed() -> bool:
            return by_channel(await stage.deliveries(notification_id))["push"][0] == "sent"

        await found(confirmed)
        stage.clock.advance(timedelta(minutes=11))
        rows = await stage.settled(notification_id, "sent", "skipped")

    assert by_channel(rows) == {"push": ("sent", None), "email": ("skipped", "failover_not_needed")}
    assert not mail.arrived


async def test_mail_waits_while_push_waits_for_its_own_time(stage: Stage) -> None:
    push, mail = a_provider("fcm"), a_provider("smtp")
    await stage.device("ada")
    await has_mail(stage, "ada", "ada@example.com")
    notification_id = await accepted(stage, type="must_know", payload={})
    later = stage.clock() + timedelta(hours=3)
    await stage.pool.execute(
        "update deliveries set due_at = $1, state = 'scheduled' where channel = 'push'", later
    )
    async with stage.working(push, mail):
        stage.clock.advance(timedelta(minutes=11))

        async def held() -> bool:
            (row,) = [row for row in await stage.deliveries(notification_id) if row["channel"] == "email"]
            return bool(row["due_at"] == later + timedelta(minutes=10))

        await found(held)
    assert not mail.arrived
