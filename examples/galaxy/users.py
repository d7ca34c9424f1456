"""A stand-in for the user service: what it answers is all that the notification service asks of it."""

from typing import Any

from litestar import Litestar, Response, get

from examples.galaxy.samples import PLAYERS


@get("/api/v1/internal/users/{user_id:str}", sync_to_thread=False)
def find_user(user_id: str) -> Response[dict[str, Any]]:
    """Return the address and the language of a player, or 404."""
    player = PLAYERS.get(user_id)
    if player is None:
        return Response({"error": {"code": "subject_not_found"}}, status_code=404)
    return Response({"email": player.email, "preferred_language": player.preferred_language})


def user_service() -> Litestar:
    """Build the service."""
    return Litestar([find_user], openapi_config=None, logging_config=None)
