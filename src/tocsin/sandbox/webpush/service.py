"""A push service after RFC 8030, with the browsers that subscribed to it."""

import itertools
from typing import Any, ClassVar, assert_never

import msgspec

from tocsin.sandbox.answers import Answer
from tocsin.sandbox.faults.rules import Cut, Hang, Pass, Refuse
from tocsin.sandbox.service import Broken, Request, Surroundings, Verdict
from tocsin.sandbox.tally import Tally
from tocsin.sandbox.webpush.browsers import Browser, Browsers, Subscription, UnreadableError
from tocsin.sandbox.webpush.errors import REFUSALS, refusal
from tocsin.sandbox.webpush.request import Signatures, Wish, read_wish

PREFIX = "/webpush/"


class WebPush:
    """Takes messages for virtual browsers, which decrypt them.

    A browser is known by its name, in fault scripts and among the phones. Unlike a real push service,
    this one refuses what the browser could not decrypt: a real one cannot tell, and the message is lost.
    """

    name: ClassVar[str] = "webpush"

    def __init__(self, surroundings: Surroundings) -> None:
        self.faults = surroundings.board(frozenset(REFUSALS))
        self.tally = Tally()
        self._phones = surroundings.phones
        self._browsers = Browsers.prepare(surroundings.folder, kept=surroundings.settings.phones_kept)
        self._signatures = Signatures()
        self._senders: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def subscribe(self, name: str, base_url: str, *, sender_key: str | None = None) -> Subscription:
        """Subscribe a browser, to the holder of one key alone if that is given."""
        self._phones.register(name)
        self._senders.pop(name, None)
        if sender_key:
            self._senders[name] = sender_key
        browser = self._browsers.named(name)
        return Subscription(f"{base_url}{PREFIX}{self._browsers.path_of(name)}", None, browser.keys)

    def unsubscribe(self, name: str) -> None:
        """Let a browser leave; messages to it find it gone."""
        self._phones.unregister(name)

    def takes(self, method: str, path: str) -> bool:
        """Tell whether a request is a message to a browser."""
        return method == "POST" and path.startswith(PREFIX)

    def serve(self, request: Request) -> Verdict:
        """Judge a request and let its message arrive, or not."""
        outage = self.faults.messages_outage()
        if outage:
            return REFUSALS["UNAVAILABLE"].with_retry_after(outage.retry_after)
        browser = self._browsers.at(request.path.removeprefix(PREFIX))
        if browser is None:
            return REFUSALS["NOT_FOUND"]
        refused = self._barred(request, browser.name)
        if refused:
            return refused
        wish = read_wish(request)
        if isinstance(wish, Answer):
            return wish
        return self._meet_faults(request, browser, wish)

    def _barred(self, request: Request, name: str) -> Answer | None:
        signer = self._signatures.signer(request.header("authorization"), request.origin)
        if isinstance(signer, Answer):
            return signer
        if self._senders.get(name, signer) != signer:
            return REFUSALS["VAPID_CREDENTIALS_MISMATCH"]
        wait = self.faults.take_project_quota(signer)
        return None if wait is None else REFUSALS["TOO_MANY_REQUESTS"].with_retry_after(wait)

    def _meet_faults(self, request: Request, browser: Browser, wish: Wish) -> Verdict:
        fault = self.faults.befalls(browser.name)
        match fault:
            case Refuse():
                return REFUSALS[fault.code].with_retry_after(fault.retry_after)
            case Hang() | Cut():
                if fault.delivered:
                    self._take(request, browser, wish)
                return Broken(fault)
            case Pass():
                return self._take(request, browser, wish)
            case _:
                assert_never(fault)

    def _take(self, request: Request, browser: Browser, wish: Wish) -> Answer:
        if not self._phones.is_live(browser.name):
            return REFUSALS["GONE"]
        wait = self.faults.take_device_quota(browser.name)
        if wait is not None:
            return REFUSALS["TOO_MANY_REQUESTS"].with_retry_after(wait)
        try:
            content = _read(browser.read(request.body))
        except UnreadableError as error:
            return refusal("UNREADABLE", 400, f"The browser cannot read it: {error}.")
        message_id = f"{next(self._numbers):016x}"
        delivery_id = _delivery_id(content)
        self.tally.deliver(delivery_id)
        self._phones.receive(
            provider="webpush",
            target_kind="token",
            target=browser.name,
            message_id=message_id,
            delivery_id=delivery_id,
            message={"headers": msgspec.to_builtins(wish), "content": content},
        )
        location = ("location", f"{request.origin}{PREFIX}messages/{message_id}")
        return Answer("CREATED", 201, b"", [location, ("ttl", str(wish.ttl))])


def _read(plaintext: bytes) -> Any:
    """Show JSON as such and anything else as text, as a service worker may read it."""
    try:
        return msgspec.json.decode(plaintext)
    except msgspec.DecodeError:
        return plaintext.decode(errors="replace")


def _delivery_id(content: Any) -> str | None:
    data = content.get("data") if isinstance(content, dict) else None
    delivery_id = data.get("delivery_id") if isinstance(data, dict) else None
    return delivery_id if isinstance(delivery_id, str) else None
