import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tocsin.catalog.load import load_catalog

GALAXY = Path(__file__).parents[2] / "examples" / "galaxy"
FLATC_VERSION = "2.0.8"


@pytest.fixture
def flatc() -> str:
    """Find the compiler in the version whose output is checked in: another version formats it otherwise."""
    program = shutil.which("flatc")
    if program is None:
        pytest.skip("THE TABLES ARE NOT REGENERATED: flatc is not installed (Debian: flatbuffers-compiler)")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if FLATC_VERSION not in said:
        pytest.skip(f"THE TABLES ARE NOT REGENERATED: they are of flatc {FLATC_VERSION}; this is {said}")
    return program


def test_the_tables_are_what_flatc_writes(flatc: str, tmp_path: Path) -> None:
    command = [flatc, "--python", "--gen-object-api", "-o", str(tmp_path), str(GALAXY / "notification.fbs")]
    subprocess.run(command, check=True)

    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.py")}
    tables = GALAXY / "tables"
    kept = {path.relative_to(tables): path.read_text() for path in tables.rglob("*.py")}
    assert kept == written


def _tables() -> dict[str, list[tuple[str, str]]]:
    schema = (GALAXY / "notification.fbs").read_text()
    assert "namespace notification;" in schema
    return {
        name: re.findall(r"(\w+):(\w+);", body)
        for name, body in re.findall(r"table (\w+) \{(.*?)\}", schema, re.DOTALL)
    }


def test_each_push_has_a_table_with_its_fields() -> None:
    assert _tables() == {
        "GameTurnReadyEvent": [("game_id", "string"), ("turn_number", "int64")],
        "GameFinishedEvent": [("game_id", "string"), ("final_turn_number", "int64")],
        "LobbyApplicationSubmittedEvent": [("game_id", "string"), ("applicant_user_id", "string")],
        "LobbyMembershipApprovedEvent": [("game_id", "string")],
        "LobbyMembershipRejectedEvent": [("game_id", "string")],
        "LobbyMembershipBlockedEvent": [
            ("game_id", "string"),
            ("membership_user_id", "string"),
            ("reason", "string"),
        ],
        "LobbyInviteCreatedEvent": [("game_id", "string"), ("inviter_user_id", "string")],
        "LobbyInviteRedeemedEvent": [("game_id", "string"), ("invitee_user_id", "string")],
        "LobbyRaceNameRegistrationEligibleEvent": [
            ("game_id", "string"),
            ("race_name", "string"),
            ("eligible_until_ms", "int64"),
        ],
        "LobbyRaceNameRegisteredEvent": [("race_name", "string")],
    }


BOTH, EMAIL = ("push", "email"), ("email",)
GAME = ("game_id", "game_name")
CATALOG = {
    "geo.review_recommended": (
        {"admins": EMAIL},
        ("user_id", "user_email", "observed_country", "usual_connection_country", "review_reason"),
    ),
    "game.turn.ready": ({"users": BOTH}, (*GAME, "turn_number")),
    "game.finished": ({"users": BOTH}, (*GAME, "final_turn_number")),
    "game.generation_failed": ({"admins": EMAIL}, (*GAME, "failure_reason")),
    "lobby.runtime_paused_after_start": ({"admins": EMAIL}, GAME),
    "lobby.application.submitted": (
        {"users": BOTH, "admins": EMAIL},
        (*GAME, "applicant_user_id", "applicant_name"),
    ),
    "lobby.membership.approved": ({"users": BOTH}, GAME),
    "lobby.membership.rejected": ({"users": BOTH}, GAME),
    "lobby.membership.blocked": (
        {"users": BOTH},
        (*GAME, "membership_user_id", "membership_user_name", "reason"),
    ),
    "lobby.invite.created": ({"users": BOTH}, (*GAME, "inviter_user_id", "inviter_name")),
    "lobby.invite.redeemed": ({"users": BOTH}, (*GAME, "invitee_user_id", "invitee_name")),
    "lobby.invite.expired": ({"users": EMAIL}, (*GAME, "invitee_user_id", "invitee_name")),
    "lobby.race_name.registration_eligible": ({"users": BOTH}, (*GAME, "race_name", "eligible_until_ms")),
    "lobby.race_name.registered": ({"users": BOTH}, ("race_name",)),
    "lobby.race_name.registration_denied": ({"users": EMAIL}, (*GAME, "race_name", "reason")),
}
"""The audiences with their channels, and the required fields of each type."""


def test_the_catalog_has_the_fifteen_types_with_their_audiences_and_fields() -> None:
    types = load_catalog(GALAXY / "catalog").types.values()

    assert {
        each.name: (dict(each.audiences or {}), tuple(each.payload_schema["required"])) for each in types
    } == CATALOG
    for each in types:
        assert (each.version, each.channels) == (1, BOTH)
        assert (each.default_locale, each.locale_match) == ("en", "exact")
        assert each.payload_schema["additionalProperties"] is True


def test_an_event_has_the_fields_of_its_table() -> None:
    types = load_catalog(GALAXY / "catalog").types.values()
    events = {each.event.table: list(each.event.fields) for each in types if each.event}

    assert {
        f"notification.{name}": [field for field, _ in fields] for name, fields in _tables().items()
    } == events
