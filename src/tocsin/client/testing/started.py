"""How the test server reports that it is ready."""

import msgspec


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses and credentials of a running test server."""

    base_url: str
    api_key: str
    jwt_secret: str
    sandbox_url: str
