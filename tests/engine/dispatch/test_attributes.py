"""Custom attributes of the recipient in the texts of a message."""

from tests.engine.stage import Stage, StubProvider, a_provider
from tests.rows import add_user
from tests.waiting import until

CHANNELS = {"push": ("fcm",), "email": ("smtp",)}
KNOWN = '{"plan": "<b>pro</b>", "seats": 5, "interests": ["art", "music"], "other": 1}'


async def test_texts_have_the_attributes_of_each_recipient_or_their_defaults(stage: Stage) -> None:
    stage.acceptor = stage.an_acceptor(CHANNELS)
    await add_user(stage.pool, "ada", email="ada@example.com", attributes=KNOWN)
    # What does not fit the declaration is not shown.
    await add_user(stage.pool, "bob", attributes='{"plan": 7, "seats": "many", "interests": "art"}')
    push, smtp = StubProvider(), a_provider("smtp")
    for user_id in ("ada", "bob", "eve"):
        await stage.device(user_id)

    async with stage.working(push, smtp):
        made = await stage.accept("ada", "bob", "eve", type="personal", payload={})
        await stage.settled(made, "sent", "skipped")

    assert {each.target: (each.title, each.body) for each in push.arrived} == {
        "ada": ("You have <b>pro</b>", "5 seats, art and music"),
        "bob": ("You have free", "1 seats, news"),
        "eve": ("You have free", "1 seats, news"),
    }
    (mail,) = smtp.arrived
    assert mail.title == "<b>pro</b>"
    assert ">&lt;b&gt;pro&lt;/b&gt;<" in (mail.html or "")


async def test_a_digest_has_the_attributes_of_its_recipient(stage: Stage) -> None:
    await add_user(stage.pool, "ada", attributes=KNOWN)
    await stage.device("ada")
    push = StubProvider()

    async with stage.working(push):
        for key in ("1", "2"):
            await stage.accept("ada", type="personal_digest", payload={}, idempotency_key=key)
        await until(lambda: len(push.arrived) == 1)

    assert push.arrived[0].body == "5 seats, art and music"
