"""A browser that subscribed, parsed as far as a message to it needs."""

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from pyreqwest.http import Url

from tocsin.domain.people.push_subscription import SubscriptionFaultError, read_subscription
from tocsin.providers.http.ssrf_guard import Guard
from tocsin.providers.webpush.crypto import read_point

MOST_BROWSERS = 2_048
"""How many parsed browsers are kept: some megabytes."""


class Browser(msgspec.Struct, frozen=True):
    """Where to post, the origin to sign for, and the keys to encrypt with."""

    endpoint: str
    origin: str
    key: EllipticCurvePublicKey
    point: bytes
    auth: bytes

    def __repr__(self) -> str:
        """Show nothing: who knows the endpoint may send to it."""
        return "Browser(…)"


def read_browser(token: str, guard: Guard) -> Browser:
    """Parse a subscription; raise SubscriptionFaultError for one that can never be sent to."""
    subscription = read_subscription(token)
    key = read_point(subscription.p256dh)
    if fault := guard.fault(subscription.endpoint):
        raise SubscriptionFaultError(f"has an endpoint that {fault}")
    origin = Url(subscription.endpoint).origin_ascii
    return Browser(subscription.endpoint, origin, key, subscription.p256dh, subscription.auth)
