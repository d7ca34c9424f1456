import pytest

from tocsin.domain.errors import SettingsError
from tocsin.ingress.sqs.settings import WRONG_URL, url_fault
from tocsin.settings.load import load_settings

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/shop"


def test_queues_are_read_from_variables() -> None:
    settings = load_settings({"TOCSIN_QUEUES__SHOP__URL": URL, "TOCSIN_QUEUES__SHOP__ENVELOPE": "fisa"})

    assert (settings.queues["shop"].url, settings.queues["shop"].envelope) == (URL, "fisa")


def test_what_cannot_be_used_stops_the_start() -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(
            {
                "TOCSIN_QUEUES__A__URL": URL,
                "TOCSIN_QUEUES__B__URL": URL,
                "TOCSIN_QUEUES__C__RECEIVERS": "2",
                "TOCSIN_QUEUES__D__URL": "shop",
                "TOCSIN_QUEUES__E__URL": f"{URL}-e",
                "TOCSIN_QUEUES__E__TYPES__A": "b",
                "TOCSIN_QUEUES__F!__URL": f"{URL}-f",
                "TOCSIN_ARCHIVE__QUEUE_URL": "ftp://x",
                "TOCSIN_ARCHIVE__DESTINATION": "gs://bucket",
                "TOCSIN_ARCHIVE__ROLL_MESSAGES": "0",
            }
        )

    faults = {(fault.field.partition(" ")[0], fault.code) for fault in raised.value.faults}
    assert faults == {
        ("archive.roll_messages", "invalid"),
        ("archive.queue_url", "invalid"),
        ("archive.destination", "invalid"),
        ("queues.b.url", "contradiction"),
        ("queues.c.url", "missing"),
        ("queues.d.url", "invalid"),
        ("queues.e.types", "contradiction"),
        ("queues.f!", "invalid"),
    }
    messages = {fault.field.partition(" ")[0]: fault.message for fault in raised.value.faults}
    assert "must be set" in messages["queues.c.url"]
    for name in ("queues.d.url", "archive.queue_url"):
        assert messages[name].startswith("must be the URL of a queue, such as https://sqs.")


@pytest.mark.parametrize(
    "url",
    [
        "sqs.eu-west-1.amazonaws.com/1/q",
        "https:///1/q",
        "https://user:password@host/1/q",
        "https://host/1/q?x=1",
        "https://host:0/1/q",
        "https://host:x/1/q",
        "https://host/",
        "https://host/1/" + "q" * 90,
        "https://host/1/a b",
        "https://[::1/1/q",
    ],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    assert url_fault(url) == WRONG_URL


@pytest.mark.parametrize(
    "path", ["/123456789012/shop", "/000000000000/shop.fifo", "/queue/eu-west-1/1/shop", "/shop"]
)
def test_urls_of_emulators_are_taken(path: str) -> None:
    assert url_fault(f"http://127.0.0.1:4566{path}") is None
