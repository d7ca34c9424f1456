"""The intents of a request are planned together as each would be alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.catalogs import shipped
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.catalog import Digest, NotificationType
from tocsin.domain.faults import Fault
from tocsin.domain.ids import LAST
from tocsin.domain.intent import Audience, Intent
from tocsin.engine.accept.planner import Planner, Planning
from tocsin.engine.toggles.toggles import Toggles
from tocsin.store.notifications import NewNotification

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PROVIDERS = {"push": ("fcm",), "email": ("smtp",), "inbox": ("inbox",), "webhook": ("webhook",)}
USUAL = Intent(
    type="new_customer",
    audience=Audience(users=["ada"]),
    payload={"customer_name": "Ada"},
    idempotency_key="1",
)
CHANGES: list[dict[str, Any]] = [
    {},
    {"audience": Audience(users=[42])},
    {"audience": Audience(users=["ada", "bob", "ada"])},
    {"audience": Audience(emails=["a@b.c"])},
    {"audience": Audience(topic="news")},
    {"audience": Audience(admins=True)},
    {"audience": Audience(everyone=True)},
    {"audience": Audience(users=["ada"], topic="news")},
    {"version": 1, "payload": {"customerName": "Ada"}},
    {"version": 9},
    {"payload": {}},
    {"type": "unknown"},
    {"ttl_seconds": 60},
    {"send_at": NOW + timedelta(hours=1)},
    {"send_at_local": (NOW + timedelta(days=2)).replace(tzinfo=None)},
    {"collapse_key": "one"},
    {"locale": "tr_TR", "org_id": "acme", "request_id": "r", "trace_id": "t", "occurred_at": NOW},
]


@pytest.fixture
def planner() -> Planner:
    return Planner(shipped(), PROVIDERS, {}, Toggles())


def without_ids(checked: Any) -> Any:
    if not isinstance(checked, NewNotification):
        return checked
    deliveries = [msgspec.structs.replace(each, id=LAST) for each in checked.deliveries]
    return msgspec.structs.replace(checked, id=LAST, deliveries=deliveries)


def test_intents_of_one_request_do_not_change_each_other(planner: Planner) -> None:
    names = sorted(shipped().types)
    intents = [msgspec.structs.replace(USUAL, **change) for change in CHANGES]
    intents += [msgspec.structs.replace(USUAL, type=name, payload={}) for name in names]
    alone = [without_ids(planner.check("shop", intent, NOW)) for intent in intents]
    planning = Planning(planner, "shop", NOW)

    for _ in range(2):
        assert [without_ids(planning.check(intent)) for intent in intents] == alone


def test_every_notification_and_delivery_has_an_id_of_its_own(planner: Planner) -> None:
    planning = Planning(planner, "shop", NOW)

    checked = [planning.check(USUAL) for _ in range(3)]

    made = [each for each in checked if isinstance(each, NewNotification)]
    ids = [each.id for each in made] + [delivery.id for each in made for delivery in each.deliveries]
    assert len(made) == 3
    assert len(set(ids)) == len(ids) == 6
    assert LAST not in ids


def test_what_an_intent_says_of_itself_is_kept(planner: Planner) -> None:
    intent = msgspec.structs.replace(
        USUAL,
        send_at=NOW + timedelta(hours=1),
        ttl_seconds=60,
        collapse_key="one",
        locale="tr_TR",
        org_id="acme",
        request_id="r",
        trace_id="t",
        occurred_at=NOW,
    )

    made = planner.check("shop", intent, NOW)

    assert isinstance(made, NewNotification)
    assert (made.producer, made.idempotency_key, made.type, made.version) == ("shop", "1", "new_customer", 2)
    assert (made.send_at, made.expires_at) == (intent.send_at, NOW + timedelta(hours=1, seconds=60))
    assert (made.collapse_key, made.locale, made.org_id) == ("one", "tr-TR", "acme")
    assert (made.request_id, made.trace_id, made.occurred_at) == ("r", "t", NOW)
    assert (made.audience, made.payload) == (b'{"users":["ada"]}', b'{"customer_name":"Ada"}')
    [delivery] = made.deliveries
    assert (delivery.user_id, delivery.due_at) == ("ada", intent.send_at)
    assert delivery.collapse_key == "push:user:ada:one:new_customer"


def with_type(changed: NotificationType) -> Catalog:
    catalog = load_catalog(shipped_catalog())
    key = (changed.name, changed.version)
    types = {**catalog.compiled, key: msgspec.structs.replace(catalog.compiled[key], type=changed)}
    return Catalog(types.values())


@pytest.mark.parametrize("change", [{}, {"request_id": "r"}, {"org_id": "acme"}, {"collapse_key": "one"}])
def test_what_a_digest_collects_lives_from_the_end_of_its_window(change: dict[str, Any]) -> None:
    own = shipped().types["new_customer"]
    digest = Digest(window=timedelta(hours=1))
    policies = msgspec.structs.replace(own.policies, digest=digest, ttl_seconds=600, ordered=False)
    catalog = with_type(msgspec.structs.replace(own, policies=policies))

    made = Planner(catalog, PROVIDERS, {}, Toggles()).check(
        "shop", msgspec.structs.replace(USUAL, **change), NOW
    )

    assert isinstance(made, NewNotification)
    assert [each.due_at for each in made.deliveries] == [NOW + timedelta(hours=1)]
    assert made.expires_at == NOW + timedelta(hours=1, seconds=600)


def test_a_type_that_a_reload_removes_during_a_request_refuses_its_own_intents_alone() -> None:
    catalog = load_catalog(shipped_catalog())
    planning = Planning(Planner(catalog, PROVIDERS, {}, Toggles()), "shop", NOW)
    assert isinstance(planning.check(USUAL), NewNotification)

    catalog.replace(Catalog([each for each in catalog.compiled.values() if each.type.name != "new_customer"]))
    refused = planning.check(USUAL)

    assert isinstance(refused, list)
    [fault] = refused
    assert isinstance(fault, Fault)
    assert (fault.field, fault.code) == ("type", "unknown_type")
