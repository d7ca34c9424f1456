"""Every stand-in that is spoken to over HTTP, the busiest first."""

from collections.abc import Callable

from tocsin.sandbox.apns import Apns
from tocsin.sandbox.expo import Expo
from tocsin.sandbox.fcm import Fcm
from tocsin.sandbox.service import Service, Surroundings
from tocsin.sandbox.webhook import Webhook
from tocsin.sandbox.webpush import WebPush

SERVICES: tuple[Callable[[Surroundings], Service], ...] = (Fcm, Apns, Expo, WebPush, Webhook)
