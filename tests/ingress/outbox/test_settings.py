from pathlib import Path

import pytest

from tocsin.domain.errors import SettingsError
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.settings.load import load_settings

URL = "postgresql://shop.example/shop"


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "tocsin.toml"


def _faults(environ: dict[str, str], file: Path | None = None) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, file)
    return {fault.field: fault.message for fault in caught.value.faults}


def test_outboxes_are_sections_under_names_of_their_own(toml: Path) -> None:
    toml.write_text(
        f"""
        [outboxes.shop]
        url = "{URL}"
        [outboxes.office]
        url = "{URL}"
        table = "outbox_events"
        envelope = "fisa"
        types = {{"comment.added" = "comment_added"}}
        columns = {{payload = "content"}}
        """
    )

    outboxes = load_settings({}, toml).outboxes

    assert outboxes["shop"] == OutboxSettings(url=URL)
    assert outboxes["office"].types == {"comment.added": "comment_added"}
    assert outboxes["office"].columns.payload == "content"


def test_a_variable_sets_up_an_outbox_or_goes_before_the_file(toml: Path) -> None:
    toml.write_text(f'[outboxes.shop]\nurl = "{URL}"\nbatch = 10\n')

    outboxes = load_settings(
        {
            "TOCSIN_OUTBOXES__SHOP__BATCH": "20",
            "TOCSIN_OUTBOXES__BILLING__URL": URL,
            "TOCSIN_OUTBOXES__BILLING__COLUMNS__ID": "number",
        },
        toml,
    ).outboxes

    assert outboxes["shop"] == OutboxSettings(url=URL, batch=20)
    assert (outboxes["billing"].url, outboxes["billing"].columns.id) == (URL, "number")


@pytest.mark.parametrize(
    ("variable", "value", "field", "message"),
    [
        ("TOCSIN_OUTBOXES", "shop", "outboxes (TOCSIN_OUTBOXES)", "must be a section"),
        ("TOCSIN_OUTBOXES__SHOP", URL, "outboxes.shop (TOCSIN_OUTBOXES__SHOP)", "must be a section"),
        (
            "TOCSIN_OUTBOXES__SHOP__URL",
            "shop.example",
            "outboxes.shop.url (TOCSIN_OUTBOXES__SHOP__URL)",
            "must begin with postgresql://",
        ),
        (
            "TOCSIN_OUTBOXES__SHOP__BATCH",
            "0",
            "outboxes.shop.batch (TOCSIN_OUTBOXES__SHOP__BATCH)",
            ">= 1",
        ),
        (
            "TOCSIN_OUTBOXES__SHOP__TABEL",
            "x",
            "outboxes.shop.tabel (TOCSIN_OUTBOXES__SHOP__TABEL)",
            "did you mean outboxes.shop.table",
        ),
        (
            "TOCSIN_OUTBOXES__SHOP__COLUMNS__KEY",
            "x",
            "outboxes.shop.columns.key (TOCSIN_OUTBOXES__SHOP__COLUMNS__KEY)",
            "no such setting",
        ),
    ],
    ids=str,
)
def test_a_wrong_value_is_named(variable: str, value: str, field: str, message: str) -> None:
    assert message in _faults({variable: value})[field]


def test_contradictions_are_named(toml: Path) -> None:
    toml.write_text(
        f"""
        [outboxes.shop]
        url = "{URL}"
        [outboxes.store]
        url = "{URL}"
        producer = "shop"
        types = {{"a.b" = "c"}}
        [outboxes."The Office"]
        url = ""
        """
    )

    faults = _faults({}, toml)

    assert "that of outboxes.shop too" in faults["outboxes.store.producer (TOCSIN_OUTBOXES__STORE__PRODUCER)"]
    assert 'for envelope = "fisa"' in faults["outboxes.store.types (TOCSIN_OUTBOXES__STORE__TYPES)"]
    assert "lower-case" in faults["outboxes.The Office (TOCSIN_OUTBOXES__THE OFFICE)"]
    assert len(faults) == 4


TOPIC = "arn:aws:sns:ap-southeast-1:123456789012:fisa-notify"


def test_an_outbox_of_a_topic_has_defaults_of_its_own(toml: Path) -> None:
    toml.write_text(
        f"""
        [outboxes.office]
        url = "{URL}"
        topic_arn = "{TOPIC}.fifo"
        [outboxes.news]
        url = "{URL}"
        topic_arn = "{TOPIC}"
        batch = 7
        types = {{"customer.added" = "new_customer"}}
        [outboxes.shop]
        url = "{URL}"
        """
    )

    office, news, shop = load_settings({}, toml).outboxes.values()

    assert (office.batch_size, office.poll_interval, office.is_fifo, office.in_order) == (
        100,
        0.8,
        True,
        True,
    )
    assert (news.batch_size, news.is_fifo, news.in_order) == (7, False, False)
    assert (shop.batch_size, shop.poll_interval, shop.in_order) == (500, 1.0, False)


def test_contradictions_of_a_topic_are_named(toml: Path) -> None:
    toml.write_text(
        f"""
        [outboxes.office]
        url = "{URL}"
        topic_arn = "{TOPIC}.fifo"
        envelope = "fisa"
        order = "aggregate"
        producer = "office"
        types = {{"a.b" = "c"}}
        [outboxes.news]
        url = "{URL}"
        topic_arn = "arn:aws:sqs:ap-southeast-1:123456789012:a-queue"
        """
    )

    faults = {name.partition(" ")[0]: message for name, message in _faults({}, toml).items()}

    assert "keeps the order of each user" in faults["outboxes.office.order"]
    assert "are published to a topic" in faults["outboxes.office.producer"]
    assert "event_type that it has" in faults["outboxes.office.types"]
    assert "arn:aws" in faults["outboxes.news.topic_arn"]
    assert len(faults) == 4
