"""The types of client and server are written apart, so that either stands alone, and agree."""

import msgspec
import pytest

from tocsin import client
from tocsin.api.person import devices
from tocsin.api.producer import decisions, users
from tocsin.client.calls import LARGEST_BATCH
from tocsin.domain import intent

PAIRS = [
    (client.Cancelled, decisions.Cancelled),
    (client.Rescheduled, decisions.Rescheduled),
    (client.User, users.User),
    (client.Device, devices.Device),
]


def _names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[ours.__name__ for ours, _ in PAIRS])
def test_an_answer_has_the_fields_that_are_sent(
    ours: type[msgspec.Struct], theirs: type[msgspec.Struct]
) -> None:
    assert _names(ours) == _names(theirs)


def test_an_intent_has_the_fields_that_are_taken() -> None:
    assert _names(client.Intent) == (_names(intent.Intent) - {"audience"}) | _names(intent.Audience)


def test_a_batch_is_as_large_as_the_server_takes() -> None:
    from tocsin.api.producer import notifications

    assert LARGEST_BATCH == notifications.LARGEST_BATCH
