"""Stand-in for a push service (RFC 8030), with the browsers that subscribed to it."""

import itertools
from typing import Any

import msgspec

from tocsin.sandbox.phones import Push
from tocsin.sandbox.responses import TEXT, RefusedRequestError, Response
from tocsin.sandbox.stand_in import ReceivedRequest, SandboxContext, SinglePushStandIn, delivery_id_in
from tocsin.sandbox.webpush.browsers import Browser, Browsers, DecryptionError, Subscription
from tocsin.sandbox.webpush.errors import REFUSALS
from tocsin.sandbox.webpush.request import check_signature, parse_headers

PREFIX = "/webpush/"


class WebPush(SinglePushStandIn):
    """Takes messages for virtual browsers, which decrypt them.

    A browser is identified by its name, in fault scripts and among the phones. Unlike a real push service,
    this one refuses what the browser could not decrypt: a real one cannot see it, and the message is lost.
    """

    name = "webpush"
    codes = frozenset(REFUSALS)
    outage_code = "UNAVAILABLE"
    unregistered_code = "GONE"
    device_quota_code = "TOO_MANY_REQUESTS"

    def __init__(self, context: SandboxContext) -> None:
        super().__init__(context)
        self._browsers = Browsers(context.folder, kept=context.settings.phones_kept)
        self._sender_keys: dict[str, str | None] = {}
        self._numbers = itertools.count(1)

    def subscribe(self, name: str, base_url: str, *, sender_key: str | None = None) -> Subscription:
        """Subscribe a browser to messages of any sender, or of the owner of one key only."""
        self._phones.register(name)
        self._sender_keys[name] = sender_key
        browser = self._browsers.named(name)
        return Subscription(f"{base_url}{PREFIX}{self._browsers.path_of(name)}", None, browser.keys)

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request sends a message to a browser."""
        return method == "POST" and path.startswith(PREFIX)

    def _error(self, code: str, request: ReceivedRequest) -> Response:  # noqa: ARG002 - the same for every request
        return REFUSALS[code]

    def _parse(self, request: ReceivedRequest) -> Push:
        browser = self._browsers.at(request.path.removeprefix(PREFIX))
        if browser is None:
            self._refuse("NOT_FOUND", request)
        signer = check_signature(request.header("authorization"), request.origin)
        if self._sender_keys.get(browser.name) not in {None, signer}:
            self._refuse("VAPID_CREDENTIALS_MISMATCH", request)
        wait = self.faults.take_project_quota(signer)
        if wait is not None:
            self._refuse("TOO_MANY_REQUESTS", request, wait)
        return Push(
            target=browser.name,
            message_id=f"{next(self._numbers):016x}",
            message={"headers": parse_headers(request), "content": request.body},
        )

    def _arrive(self, push: Push) -> None:
        """Decrypt a message as its browser does, and store it."""
        content = _decrypted(self._browsers.named(push.target), push.message["content"])
        delivery_id = delivery_id_in(content.get("data")) if isinstance(content, dict) else None
        message = {**push.message, "content": content}
        self._receive(msgspec.structs.replace(push, delivery_id=delivery_id, message=message))

    def _success(self, push: Push, request: ReceivedRequest) -> Response:
        location = ("location", f"{request.origin}{PREFIX}messages/{push.message_id}")
        return Response("CREATED", 201, b"", (location, ("ttl", str(push.message["headers"]["ttl"]))))


def _decrypted(browser: Browser, body: bytes) -> Any:
    """Return decrypted JSON decoded, and anything else as text, as a service worker may read it.

    A message without a body has no data: None.
    """
    if not body:
        return None
    try:
        plaintext = browser.decrypt(body)
    except DecryptionError as error:
        text = f"The browser cannot read it: {error}.\n"
        raise RefusedRequestError(Response("UNREADABLE", 400, text.encode(), (TEXT,))) from None
    try:
        return msgspec.json.decode(plaintext)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return plaintext.decode(errors="replace")
