"""What the service writes into the streams is what the AsyncAPI documents describe."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.blackbox.galaxy.rig.document import EVERY_ROUTE
from tests.blackbox.galaxy.rig.system import Notifications
from tests.contracts import accepts

DOCUMENTS = Path(__file__).parents[3] / "docs" / "reference" / "asyncapi"


async def entries_by_type(galaxy: Notifications) -> dict[str, list[tuple[str, Mapping[str, str]]]]:
    """Publish every type and return the events and the commands, each with its type."""
    entry_ids = [
        await galaxy.append(
            name, *([galaxy.player()] if kind == "user" else []), request_id="r", trace_id="t"
        )
        for name, kind in EVERY_ROUTE
    ]
    found: dict[str, list[tuple[str, Mapping[str, str]]]] = {"client-events": [], "mail-commands": []}
    for entry_id in entry_ids:
        await galaxy.routes(entry_id)
        for event in await galaxy.events(entry_id):
            # The body is no text; its place in the document is that of a text.
            texts = {name: value.decode("latin-1") for name, value in event.items()}
            found["client-events"].append((texts["event_type"], texts))
        for command in await galaxy.commands(entry_id):
            template = json.loads(command["payload_json"])["template_id"]
            found["mail-commands"].append((template, command))
    return found


async def test_events_and_commands_are_as_their_documents_say(galaxy: Notifications) -> None:
    for name, entries in (await entries_by_type(galaxy)).items():
        document: Any = yaml.safe_load((DOCUMENTS / f"{name}.yaml").read_text("utf-8"))
        (channel,) = document["channels"].values()
        assert channel["address"] in {galaxy.client_events, galaxy.mail_commands}
        messages = document["components"]["messages"]
        assert {type_name for type_name, _ in entries} == messages.keys()
        for type_name, entry in entries:
            assert accepts(document, messages[type_name]["payload"], entry), (name, entry)
            declared = document["components"]["schemas"]
            known = {field for schema in declared.values() for field in schema.get("properties", {})}
            assert entry.keys() <= known
