"""What the inbox makes of messages. It calls nobody: conformance by wire is not for it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.providers.rig import NOW, a_message
from tests.unit.catalog.folders import folder
from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.domain.delivery.message import Message, PushAppearance
from tocsin.domain.delivery.outcome import InboxContent, Rejected, Sent
from tocsin.providers.inbox.provider import InboxProvider
from tocsin.providers.inbox.settings import InboxSettings

TYPE = """
shipped:
  version: 1
  category: orders
  channels: [inbox]
  payload:
    type: object
    properties:
      place: {type: string, pattern: '[:/]', examples: [/orders/7]}
    required: [place]
  data: {place: '{{ place }}'}
  inbox: {link: '{{ place }}', icon: 'https://example.com/{{ 1 + 1 }}.png'}
"""
TEXTS = {"templates/shipped/en/inbox.title.j2": "Shipped", "templates/shipped/en/inbox.body.j2": "On its way"}


def provider() -> InboxProvider:
    return InboxProvider(InboxSettings(enabled=True, max_concurrency=7))


def message(**changes: Any) -> Message:
    return msgspec.structs.replace(a_message("ada"), **changes)


async def test_it_says_what_it_takes() -> None:
    inbox = provider()

    assert (inbox.name, inbox.concurrency) == ("inbox", 7)
    assert list(await inbox.send([], now=NOW)) == []


async def test_each_message_has_its_outcome_in_order() -> None:
    inbox = provider()
    large = message(body="ü" * inbox.limits.payload_bytes)
    broken: Any = message(data={"a": 7})
    long_link = message(appearance=PushAppearance(deep_link="https://example.com/" + "x" * 2_048))

    outcomes = await inbox.send([message(), large, broken, long_link, message()], now=NOW)

    assert [type(each) for each in outcomes] == [Sent, Rejected, Rejected, Rejected, Sent]
    assert [each.code for each in outcomes if isinstance(each, Rejected)] == [
        "payload_too_large",
        "internal_error",
        "payload_too_large",
    ]


async def test_an_item_has_the_texts_the_link_and_the_icon() -> None:
    appearance = PushAppearance(deep_link="/orders/7", icon="bell")
    (outcome,) = await provider().send(
        [message(title=" a\x00b\n", body="<b>c</b>", data={"k": "v\x00"}, appearance=appearance)], now=NOW
    )

    # What the database cannot store is replaced; a text stays as it is, since nobody shows it as HTML.
    assert outcome == Sent(
        item=InboxContent(
            title="a\ufffdb", body="<b>c</b>", link="/orders/7", icon="bell", data={"k": "v\ufffd"}
        )
    )


@pytest.mark.parametrize(
    "place", ["/orders/7", "https://example.com/x?y=1#z", "myapp://orders/7", "mailto:a@b"]
)
def test_a_link_leads_into_the_app_or_to_an_address(tmp_path: Path, place: str) -> None:
    catalog = load_catalog(folder(tmp_path, {"types/shipped.yaml": TYPE, **TEXTS}))
    type_ = catalog.types["shipped"]

    content = catalog.render(type_, "inbox", None, {"place": place})

    assert (content.appearance.deep_link, content.appearance.icon) == (place, "https://example.com/2.png")
    assert content.parts == {"title": "Shipped", "body": "On its way"}


@pytest.mark.parametrize(
    "place",
    ["javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "//evil.example", "/a b", "x/y"],
)
def test_a_link_that_runs_a_script_or_leads_nowhere_is_a_fault(tmp_path: Path, place: str) -> None:
    declared = TYPE.replace("examples: [/orders/7]", f"examples: ['{place}']")

    (fault,) = check(folder(tmp_path, {"types/shipped.yaml": declared, **TEXTS})).faults

    assert "must be a path that begins with /" in fault.message
