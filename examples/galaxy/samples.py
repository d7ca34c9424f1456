"""The platform's own data: its players, its administrators, and an intent of each of the fifteen types."""

from collections.abc import Mapping
from typing import Any

import msgspec

GAME = {"game_id": "game-7", "game_name": "Perseus Arm"}
GRACE_APPLIES = {**GAME, "applicant_user_id": "u-grace", "applicant_name": "Grace"}


class Player(msgspec.Struct, frozen=True):
    """What the user service knows of a player."""

    name: str
    email: str
    preferred_language: str


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """An intent, and what must come of it.

    Without `users` it is for the administrators of its type. `event` are the fields of the push; without one
    the type has none. `subject` is that of each mail.
    """

    type: str
    producer: str
    payload: Mapping[str, Any]
    users: tuple[str, ...] = ()
    event: tuple[str, ...] = ()
    subject: str

    @property
    def body(self) -> dict[str, Any]:
        """The fields that every push of it has."""
        return {field: self.payload[field] for field in self.event}

    @property
    def pushed_to(self) -> tuple[str, ...]:
        """The players who get the push."""
        return self.users if self.event else ()

    @property
    def mailed_to(self) -> tuple[str, ...]:
        """The addresses that get the mail."""
        return tuple(PLAYERS[user].email for user in self.users) if self.users else ADMINS[self.type]


PLAYERS: Mapping[str, Player] = {
    "u-ada": Player("Ada", "ada@players.example", "en"),
    # The catalog has English alone: both read that.
    "u-grace": Player("Grace", "grace@players.example", "en-GB"),
    "u-kerem": Player("Kerem", "kerem@players.example", "tr"),
}

ADMINS: Mapping[str, tuple[str, ...]] = {
    "geo.review_recommended": ("geo@galaxy.example",),
    "game.generation_failed": ("operations@galaxy.example", "engine@galaxy.example"),
    "lobby.runtime_paused_after_start": ("operations@galaxy.example",),
    "lobby.application.submitted": ("lobby@galaxy.example",),
}

SAMPLES = (
    Sample(
        type="geo.review_recommended",
        producer="geoprofile",
        payload={
            "user_id": "u-kerem",
            "user_email": "kerem@players.example",
            "observed_country": "BR",
            "usual_connection_country": "TR",
            "review_reason": "three countries in one day",
        },
        subject="Review recommended: kerem@players.example",
    ),
    Sample(
        type="game.turn.ready",
        producer="game_master",
        users=("u-ada", "u-grace", "u-kerem"),
        payload={**GAME, "turn_number": 42},
        event=("game_id", "turn_number"),
        subject="Perseus Arm: turn 42 is ready",
    ),
    Sample(
        type="game.finished",
        producer="game_master",
        users=("u-ada", "u-grace", "u-kerem"),
        payload={**GAME, "final_turn_number": 120},
        event=("game_id", "final_turn_number"),
        subject="Perseus Arm is over",
    ),
    Sample(
        type="game.generation_failed",
        producer="game_master",
        payload={**GAME, "failure_reason": "the engine ran out of memory"},
        subject="Turn generation failed: Perseus Arm",
    ),
    Sample(
        type="lobby.runtime_paused_after_start",
        producer="game_lobby",
        payload=GAME,
        subject="Paused right after its start: Perseus Arm",
    ),
    # A private game: its owner decides.
    Sample(
        type="lobby.application.submitted",
        producer="game_lobby",
        users=("u-ada",),
        payload=GRACE_APPLIES,
        event=("game_id", "applicant_user_id"),
        subject="Grace wants to join Perseus Arm",
    ),
    # A public one: the administrators do.
    Sample(
        type="lobby.application.submitted",
        producer="game_lobby",
        payload={**GRACE_APPLIES, "game_id": "game-8", "game_name": "Orion Spur"},
        subject="Grace wants to join Orion Spur",
    ),
    Sample(
        type="lobby.membership.approved",
        producer="game_lobby",
        users=("u-grace",),
        payload=GAME,
        event=("game_id",),
        subject="You are in: Perseus Arm",
    ),
    Sample(
        type="lobby.membership.rejected",
        producer="game_lobby",
        users=("u-kerem",),
        payload=GAME,
        event=("game_id",),
        subject="Not this time: Perseus Arm",
    ),
    Sample(
        type="lobby.membership.blocked",
        producer="game_lobby",
        users=("u-ada",),
        payload={
            **GAME,
            "membership_user_id": "u-grace",
            "membership_user_name": "Grace",
            "reason": "three turns missed",
        },
        event=("game_id", "membership_user_id", "reason"),
        subject="Grace was blocked in Perseus Arm",
    ),
    Sample(
        type="lobby.invite.created",
        producer="game_lobby",
        users=("u-kerem",),
        payload={**GAME, "inviter_user_id": "u-ada", "inviter_name": "Ada"},
        event=("game_id", "inviter_user_id"),
        subject="Ada invites you to Perseus Arm",
    ),
    Sample(
        type="lobby.invite.redeemed",
        producer="game_lobby",
        users=("u-ada",),
        payload={**GAME, "invitee_user_id": "u-kerem", "invitee_name": "Kerem"},
        event=("game_id", "invitee_user_id"),
        subject="Kerem joins Perseus Arm",
    ),
    Sample(
        type="lobby.invite.expired",
        producer="game_lobby",
        users=("u-ada",),
        payload={**GAME, "invitee_user_id": "u-grace", "invitee_name": "Grace"},
        subject="Your invitation to Grace has expired",
    ),
    Sample(
        type="lobby.race_name.registration_eligible",
        producer="game_lobby",
        users=("u-grace",),
        payload={**GAME, "race_name": "Arcturians", "eligible_until_ms": 1_900_000_000_000},
        event=("game_id", "race_name", "eligible_until_ms"),
        subject="You may register Arcturians",
    ),
    Sample(
        type="lobby.race_name.registered",
        producer="game_lobby",
        users=("u-grace",),
        payload={"race_name": "Arcturians"},
        event=("race_name",),
        subject="Arcturians is yours",
    ),
    Sample(
        type="lobby.race_name.registration_denied",
        producer="game_lobby",
        users=("u-kerem",),
        payload={**GAME, "race_name": "Centauri", "reason": "another race has the name"},
        subject="Centauri cannot be registered",
    ),
)
