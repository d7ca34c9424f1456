"""What a server that was started for tests tells of itself."""

import msgspec


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is and how to speak to it."""

    base_url: str
    api_key: str
    jwt_secret: str
    sandbox_url: str
