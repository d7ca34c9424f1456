"""The catalog in the guide is a real one."""

import re
from datetime import timedelta
from pathlib import Path

from tocsin.catalog.load import load_catalog
from tocsin.domain.catalog import Failover
from tocsin.domain.delivery.message import PushAppearance
from tocsin.domain.digest import digest_payload

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "catalog.md"


def test_the_catalog_of_the_guide_works_as_written(tmp_path: Path) -> None:
    blocks = re.findall(
        r'^```\w+ title="([^"]+)"\n(.*?)^```$', GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    for name, text in blocks:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    catalog = load_catalog(tmp_path)

    stored = {"orderId": "A-17", "amount": "€ 12.50", "discount": 3}
    type_, payload = catalog.resolve("order_paid", 2, stored)
    content = catalog.render(type_, "push", "en-GB", payload)
    assert content.parts == {"title": "Order A-17 is paid", "body": "your customer paid € 12.50."}
    assert content.data == {"screen": "order", "order_id": "A-17"}
    assert content.appearance == PushAppearance(
        deep_link="shop://orders/A-17", route="/orders/A-17", sound="chime.caf", channel="orders"
    )
    assert type_.policies.failover == Failover(to="email", after=timedelta(minutes=10))

    type_, payload = catalog.resolve("order_paid", 1, {"text": "Thank you!"})
    assert catalog.render(type_, "email", "tr", payload).parts["text"] == "Thank you!"

    submitted = catalog.types["application_submitted"]
    assert submitted.audiences == {"users": ("push", "email"), "admins": ("email",)}
    assert catalog.locale(submitted, "push", "en-GB") == "en"

    told = digest_payload([{"author": name, "post": "Sums"} for name in ("Ada", "Bob", "Ada")])
    comment = catalog.render(catalog.types["comment"], "push", "en", told)
    assert comment.parts == {"title": "3 new comments", "body": "Ada, Bob on Sums"}
