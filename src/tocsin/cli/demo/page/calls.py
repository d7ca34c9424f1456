"""The calls that the demo makes over HTTP: as a producer, as an operator and as the apps of its people."""

from datetime import timedelta
from typing import TypeVar
from urllib.parse import quote

import jwt
import msgspec

from tocsin.client import AsyncTocsin
from tocsin.client.address import checked_secret
from tocsin.client.concurrent import AsyncPerson, Concurrent
from tocsin.client.exchange import CallOptions, RetryPolicy
from tocsin.client.replies import call
from tocsin.client.transport import AsyncHttpTransport, AsyncTransport, ServerAddress
from tocsin.engine.clock import utc_now

T = TypeVar("T")

_PATIENCE = RetryPolicy(timeout=5.0, deadline=10.0, retries=2)
_TOKEN_LASTS = timedelta(minutes=5)


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the API of a demo, its keys and the secret that signs people's tokens."""

    base_url: str
    producer_key: str
    operator_key: str
    jwt_secret: str

    def __repr__(self) -> str:
        """Show the address without the secrets."""
        return f"Access({self.base_url!r})"

    def token_of(self, user_id: str) -> str:
        """Sign a token as the application's own login does."""
        now = utc_now()
        claims = {"sub": user_id, "iat": now, "exp": now + _TOKEN_LASTS}
        return jwt.encode(claims, self.jwt_secret, "HS256")


class Caller(Concurrent):
    """Calls of the API that the clients have no method for, with a key or a person's token."""

    def __init__(self, transport: AsyncTransport, secret: str) -> None:
        super().__init__(transport, CallOptions(checked_secret("the key", secret), _PATIENCE))

    async def call(
        self, answer: type[T], method: str, *path: object, body: object = None, **query: object
    ) -> T:
        """Make a call; the parts of its path are quoted."""
        joined = "/v1/" + "/".join(quote(str(part), safe="") for part in path)
        given = tuple((name, str(value)) for name, value in query.items())
        return await self._run(call(answer, method, joined, body, query=given))


class DemoCalls:
    """Every caller of a demo, over shared connections."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._transport = AsyncHttpTransport(ServerAddress(access.base_url))
        self.producer = AsyncTocsin(access.base_url, access.producer_key, transport=self._transport)
        self.operator = Caller(self._transport, access.operator_key)

    def app(self, user_id: str) -> AsyncPerson:
        """Return the caller that a person's app is."""
        return self.producer.for_user(self.access.token_of(user_id))

    def person(self, user_id: str) -> Caller:
        """Return a caller with a person's token."""
        return Caller(self._transport, self.access.token_of(user_id))

    async def aclose(self) -> None:
        """Close every connection."""
        await self.producer.close()
