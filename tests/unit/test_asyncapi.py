"""The AsyncAPI documents are valid, and describe what the code reads and writes."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml

from tests.contracts import accepts, resolved
from tests.javascript.packages import package
from tocsin.wire.streams.intents import EntryFaultsError, read_fields
from tools.docs.asyncapi.streams import client_events_document, intents_document, mail_commands_document

DOCUMENTS: Mapping[str, Callable[[], str]] = {
    "intents": intents_document,
    "client-events": client_events_document,
    "mail-commands": mail_commands_document,
}
INTENT = {
    "notification_type": "game.turn.ready",
    "producer": "game_master",
    "audience_kind": "user",
    "idempotency_key": "turn-7",
    "occurred_at_ms": "1767225600000",
    "payload_json": '{"game_id": "g1", "game_name": "Perseus Arm", "turn_number": 7}',
    "recipient_user_ids_json": '["ada", "bob"]',
}


@pytest.fixture(scope="module", params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    built: dict[str, Any] = yaml.safe_load(DOCUMENTS[request.param]())
    return built


@pytest.fixture(scope="module")
def asyncapi() -> jsonschema_rs.Validator:
    """Return a validator by the JSON Schema that the AsyncAPI initiative publishes."""
    schema = json.loads((package("@asyncapi/specs") / "schemas" / "3.0.0.json").read_text("utf-8"))
    return jsonschema_rs.validator_for(schema)


def test_a_document_is_valid_asyncapi(document: dict[str, Any], asyncapi: jsonschema_rs.Validator) -> None:
    assert [str(error)[:500] for error in asyncapi.iter_errors(document)] == []
    assert not asyncapi.is_valid(document | {"operations": {"read": {"action": "read"}}})


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    text = msgspec.json.encode(document).decode()
    references = [each.partition('"')[0] for each in text.split('"$ref":"')[1:]]

    assert references
    for reference in references:
        assert resolved(document, {"$ref": reference}), reference


def test_every_message_has_an_example_that_its_schema_accepts(document: dict[str, Any]) -> None:
    messages = document["components"]["messages"]
    (channel,) = document["channels"].values()

    assert messages.keys() == channel["messages"].keys()
    for name, message in messages.items():
        (example,) = message["examples"]
        assert accepts(document, message["payload"], example["payload"]), name
        assert not accepts(document, message["payload"], {}), name


def test_the_documents_have_the_types_of_the_galaxy_catalog() -> None:
    messages = {
        name: yaml.safe_load(build())["components"]["messages"].keys() for name, build in DOCUMENTS.items()
    }

    assert len(messages["intents"]) == len(messages["mail-commands"]) == 15
    assert len(messages["client-events"]) == 10
    assert messages["client-events"] < messages["intents"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"request_id": "r-1", "trace_id": "t-1"},
        {"something_else": "ignored"},
        {"audience_kind": "admin_email", "recipient_user_ids_json": None},
        {"audience_kind": "admin_email"},
        {"audience_kind": "everybody"},
        {"recipient_user_ids_json": None},
        {"recipient_user_ids_json": "[]"},
        {"recipient_user_ids_json": '["ada", "ada"]'},
        {"recipient_user_ids_json": "[7]"},
        {"recipient_user_ids_json": "ada"},
        {"payload_json": "[]"},
        {"payload_json": "no JSON"},
        {"payload_json": ""},
        {"occurred_at_ms": "1767225600000.5"},
        {"occurred_at_ms": "-1"},
        {"occurred_at_ms": "9999999999999999"},
        {"producer": "x" * 100},
        {"producer": "x" * 101},
        {"idempotency_key": "k" * 200},
        {"idempotency_key": "k" * 201},
        {"idempotency_key": "line\nbreak"},
        {"trace_id": "t" * 201},
        {"notification_type": "t" * 101},
        *({name: None} for name in INTENT),
    ],
)
def test_what_is_read_as_an_intent_is_what_the_document_says(changes: Mapping[str, str | None]) -> None:
    entry = {name: value for name, value in {**INTENT, **changes}.items() if value is not None}
    document = yaml.safe_load(intents_document())

    try:
        read_fields(entry)
    except EntryFaultsError:
        is_read = False
    else:
        is_read = True
    assert accepts(document, document["components"]["schemas"]["IntentEntry"], entry) == is_read
