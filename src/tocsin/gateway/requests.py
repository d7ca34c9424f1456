"""What the gateway takes from a request: the origin, the token, where to resume, and what SignalR adds."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tocsin.gateway.settings import ANY_ORIGIN

LONGEST_QUERY = 16_384
MOST_PARAMETERS = 20
_BEARER = "bearer "


class ConnectRequest(msgspec.Struct, frozen=True):
    """The parts of a request that decide about a session."""

    host: str
    origin: str | None
    token: str | None
    last_event_id: str | None
    """Empty if the client wants to resume later on."""
    connection_token: str | None
    negotiate_version: str | None
    accept: str

    def __repr__(self) -> str:
        """Show nothing: a token is in it."""
        return "ConnectRequest(…)"

    def is_from_allowed_origin(self, allowed: list[str]) -> bool:
        """Return whether it is from a program, a page of this host, or a page of an allowed origin."""
        if self.origin is None or ANY_ORIGIN in allowed or self.origin in allowed:
            return True
        try:
            return urlsplit(self.origin).netloc == self.host
        except ValueError:
            return False


def read_request(scope: Any) -> ConnectRequest:
    """Read the parts of a request; raise ValueError if its query is too long.

    A header goes before the parameter of the query: a browser that reconnects repeats the address it began
    with, and sends its last event id as a header.
    """
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    query = scope["query_string"]
    if len(query) > LONGEST_QUERY:
        raise ValueError("the query is too long")
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    parameters = {name: values[-1] for name, values in given.items()}
    authorization = headers.get(b"authorization", "")
    is_bearer = authorization[: len(_BEARER)].lower() == _BEARER
    bearer = authorization[len(_BEARER) :].strip() if is_bearer else None
    return ConnectRequest(
        host=headers.get(b"host", ""),
        origin=headers.get(b"origin"),
        token=bearer or parameters.get("access_token"),
        last_event_id=headers.get(b"last-event-id") or parameters.get("last_event_id"),
        connection_token=parameters.get("id"),
        negotiate_version=parameters.get("negotiateVersion"),
        accept=headers.get(b"accept", ""),
    )
