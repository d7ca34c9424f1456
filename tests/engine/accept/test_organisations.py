"""Intents of an organisation: accepted exactly if every recipient is a person of it."""

from itertools import chain, combinations

import msgspec

from tests.engine.accept.accepting import accept, alert, codes
from tests.engine.stage import Stage
from tests.rows import add_user
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.answers import Accepted, Unreadable
from tocsin.engine.accept.organisations import bind

PEOPLE = {"ann": "acme", "abe": "acme", "bob": "globex", "cid": None}
NOBODY = "nobody"


def audiences() -> list[tuple[str, ...]]:
    everybody = [*PEOPLE, NOBODY]
    some = (combinations(everybody, size) for size in range(1, len(everybody) + 1))
    return list(chain.from_iterable(some))


def sent_to(users: tuple[str, ...], org_id: str | None, kind: str = "users") -> Intent:
    addresses = [f"{user}@example.org" for user in users]
    audience = Audience(users=list(users)) if kind == "users" else Audience(emails=addresses)
    return msgspec.structs.replace(
        alert(text="hello"),
        audience=audience,
        idempotency_key=f"{kind}-{'-'.join(users)}-{org_id}",
        org_id=org_id,
    )


async def test_every_audience_of_every_organisation(stage: Stage) -> None:
    for user, org_id in PEOPLE.items():
        await add_user(stage.pool, user, org_id=org_id, email=f"{user}@example.org")
    asked = [
        (users, org_id, kind)
        for users in audiences()
        for org_id in ("acme", "globex", None)
        for kind in ("users", "emails")
    ]

    answers = await accept(stage, *(sent_to(*each) for each in asked))

    for (users, org_id, kind), answer in zip(asked, answers, strict=True):
        within = org_id is None or all(PEOPLE.get(user) == org_id for user in users)
        assert isinstance(answer, Accepted) == within, (users, org_id, kind)
        if not within:
            assert codes(answer) == ["not_your_organisation"]
    stored = await stage.pool.fetch("select distinct org_id from notifications")
    assert {row["org_id"] for row in stored} == {"acme", "globex", None}
    recorded = await stage.pool.fetch("select distinct code, org_id from refused_intents order by 2")
    assert [tuple(row) for row in recorded] == [
        ("not_your_organisation", "acme"),
        ("not_your_organisation", "globex"),
    ]


def test_an_intent_is_bound_once() -> None:
    own, other = bind(sent_to(("ann",), None), "acme"), bind(sent_to(("ann",), "globex"), "acme")

    assert own == msgspec.structs.replace(sent_to(("ann",), None), org_id="acme")
    assert isinstance(other, Unreadable)
    assert (other.org_id, other.idempotency_key) == ("acme", "users-ann-globex")
    assert bind(other, "acme") == other
