"""What the document of the galaxy notification service says of its types."""

from collections.abc import Mapping
from typing import Any, NamedTuple

PUSH_AND_EMAIL = frozenset({"push", "email"})
EMAIL = frozenset({"email"})
GAME: Mapping[str, Any] = {"game_id": "game-7", "game_name": "Perseus Arm"}


class Type(NamedTuple):
    """A type: who produces it, its channels by audience kind, a payload of its required fields, its event."""

    producer: str
    channels: Mapping[str, frozenset[str]]
    payload: Mapping[str, Any]
    table: str | None = None
    event_fields: tuple[str, ...] = ()


TYPES: Mapping[str, Type] = {
    "geo.review_recommended": Type(
        "geoprofile",
        {"admin_email": EMAIL},
        {
            "user_id": "u-9",
            "user_email": "nine@example.org",
            "observed_country": "NL",
            "usual_connection_country": "DE",
            "review_reason": "another country",
        },
    ),
    "game.turn.ready": Type(
        "game_master",
        {"user": PUSH_AND_EMAIL},
        {**GAME, "turn_number": 54},
        "GameTurnReadyEvent",
        ("game_id", "turn_number"),
    ),
    "game.finished": Type(
        "game_master",
        {"user": PUSH_AND_EMAIL},
        {**GAME, "final_turn_number": 220},
        "GameFinishedEvent",
        ("game_id", "final_turn_number"),
    ),
    "game.generation_failed": Type(
        "game_master", {"admin_email": EMAIL}, {**GAME, "failure_reason": "out of memory"}
    ),
    "lobby.runtime_paused_after_start": Type("game_lobby", {"admin_email": EMAIL}, GAME),
    "lobby.application.submitted": Type(
        "game_lobby",
        {"user": PUSH_AND_EMAIL, "admin_email": EMAIL},
        {**GAME, "applicant_user_id": "u-2", "applicant_name": "Grace"},
        "LobbyApplicationSubmittedEvent",
        ("game_id", "applicant_user_id"),
    ),
    "lobby.membership.approved": Type(
        "game_lobby", {"user": PUSH_AND_EMAIL}, GAME, "LobbyMembershipApprovedEvent", ("game_id",)
    ),
    "lobby.membership.rejected": Type(
        "game_lobby", {"user": PUSH_AND_EMAIL}, GAME, "LobbyMembershipRejectedEvent", ("game_id",)
    ),
    "lobby.membership.blocked": Type(
        "game_lobby",
        {"user": PUSH_AND_EMAIL},
        {**GAME, "membership_user_id": "u-3", "membership_user_name": "Linus", "reason": "spam"},
        "LobbyMembershipBlockedEvent",
        ("game_id", "membership_user_id", "reason"),
    ),
    "lobby.invite.created": Type(
        "game_lobby",
        {"user": PUSH_AND_EMAIL},
        {**GAME, "inviter_user_id": "u-4", "inviter_name": "Edsger"},
        "LobbyInviteCreatedEvent",
        ("game_id", "inviter_user_id"),
    ),
    "lobby.invite.redeemed": Type(
        "game_lobby",
        {"user": PUSH_AND_EMAIL},
        {**GAME, "invitee_user_id": "u-5", "invitee_name": "Barbara"},
        "LobbyInviteRedeemedEvent",
        ("game_id", "invitee_user_id"),
    ),
    "lobby.invite.expired": Type(
        "game_lobby", {"user": EMAIL}, {**GAME, "invitee_user_id": "u-5", "invitee_name": "Barbara"}
    ),
    "lobby.race_name.registration_eligible": Type(
        "game_lobby",
        {"user": PUSH_AND_EMAIL},
        {**GAME, "race_name": "Terrans", "eligible_until_ms": 1_936_776_600_000},
        "LobbyRaceNameRegistrationEligibleEvent",
        ("game_id", "race_name", "eligible_until_ms"),
    ),
    "lobby.race_name.registered": Type(
        "game_lobby",
        {"user": PUSH_AND_EMAIL},
        {"race_name": "Terrans"},
        "LobbyRaceNameRegisteredEvent",
        ("race_name",),
    ),
    "lobby.race_name.registration_denied": Type(
        "game_lobby", {"user": EMAIL}, {**GAME, "race_name": "Terrans", "reason": "taken"}
    ),
}
ADMINISTRATED = tuple(name for name, type_ in TYPES.items() if "admin_email" in type_.channels)
WITH_EVENT = tuple(name for name, type_ in TYPES.items() if type_.table)
EVERY_ROUTE = tuple((name, kind) for name, type_ in TYPES.items() for kind in type_.channels)
METRICS = {
    "notification.intent.outcomes": {"notification_type", "outcome"},
    "notification.intent.malformed": {"notification_type", "failure_code"},
    "notification.user_enrichment.attempts": {"result"},
    "notification.route.publish_attempts": {"channel", "result", "failure_classification"},
    "notification.route.retries": {"channel", "failure_classification"},
    "notification.route.dead_letters": {"channel", "failure_classification"},
    "notification.route_schedule.depth": set(),
    "notification.route_schedule.oldest_age_ms": set(),
    "notification.intent_stream.oldest_unprocessed_age_ms": set(),
}
"""The metrics, and the attributes that their series may have."""
