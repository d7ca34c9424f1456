"""The HTTP API of a server, as commands call it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar
from urllib.parse import quote

import msgspec

from tocsin.api.settings import LARGEST_PAGE
from tocsin.client.address import checked_secret
from tocsin.client.blocking import Blocking
from tocsin.client.errors import NotFoundError, UnavailableError
from tocsin.client.exchange import Call, CallOptions, ClientRequest, NoReply, RetryPolicy
from tocsin.client.replies import call, read
from tocsin.client.transport import HttpTransport, ServerAddress
from tocsin.domain.errors import TocsinError

T = TypeVar("T")
P = TypeVar("P", bound="Page")

LONGEST_UPLOAD = 3_600.0
_PATIENCE = RetryPolicy(deadline=15.0, retries=2)
_ONCE = RetryPolicy(deadline=15.0, timeout=15.0, retries=0)


class NoAnswerError(TocsinError):
    """The server that a command talks to over HTTP does not answer."""


class Page(Protocol):
    """A page of a list; `next` is the `before` of the following one."""

    @property
    def next(self) -> object:
        """Return the cursor, or None after the last page."""
        ...


class Remote(Blocking):
    """The HTTP API of a server, with an API key."""

    def __init__(self, url: str, key: str) -> None:
        self.label = f"server {url}"
        options = CallOptions(checked_secret("--key (TOCSIN_KEY)", key), _PATIENCE)
        self._http = HttpTransport(ServerAddress(url))
        super().__init__(self._http, options)

    def call(self, answer: type[T], method: str, *path: object, body: object = None, **query: object) -> T:
        """Make a call; the parts of its path are quoted."""
        joined = "/v1/" + "/".join(quote(str(part), safe="") for part in path)
        given = tuple((name, str(value)) for name, value in query.items() if value is not None)
        try:
            return self._run(call(answer, method, joined, body, query=given))
        except UnavailableError as error:
            raise NoAnswerError(
                f"The {self.label} is unavailable: {error.why}. Check --server (TOCSIN_SERVER), and that it "
                "is ready: GET /readyz."
            ) from error

    def find(
        self, answer: type[T], method: str, *path: object, body: object = None, **query: object
    ) -> T | None:
        """Make a call; return None if what it is about is not found."""
        try:
            return self.call(answer, method, *path, body=body, **query)
        except NotFoundError:
            return None

    def upload(self, answer: type[T], content_type: str, parts: Iterator[bytes], *path: object) -> T:
        """Put a body of any size, sent while it is read; it cannot be repeated."""
        joined = "/v1/" + "/".join(quote(str(part), safe="") for part in path)
        request = ClientRequest(Call("PUT", joined), self._link.secret, LONGEST_UPLOAD)
        reply = self._http.upload(request, content_type, parts)
        if isinstance(reply, NoReply):
            raise NoAnswerError(f"The {self.label} did not take all of it: {reply.why}. Upload it again.")
        return read(reply, answer)

    def call_once(self, answer: type[T], method: str, *path: object, body: object = None) -> T:
        """Make a call that is not to be repeated when its answer is lost."""
        several, self._link = self._link, msgspec.structs.replace(self._link, policy=_ONCE)
        try:
            return self.call(answer, method, *path, body=body)
        finally:
            self._link = several

    def list_pages(
        self,
        page: type[P],
        items: Callable[[P], Sequence[T]],
        *path: object,
        limit: int,
        before: object = None,
        **query: object,
    ) -> list[T]:
        """List up to `limit` items, page by page."""
        listed: list[T] = []
        while len(listed) < limit:
            size = min(limit - len(listed), LARGEST_PAGE)
            found = self.call(page, "GET", *path, limit=size, before=before, **query)
            listed += items(found)
            before = found.next
            if before is None:
                break
        return listed
