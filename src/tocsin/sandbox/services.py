"""Every stand-in that is spoken to over HTTP, the busiest first."""

from collections.abc import Callable

from tocsin.sandbox.apns.service import Apns
from tocsin.sandbox.expo.service import Expo
from tocsin.sandbox.fcm.service import Fcm
from tocsin.sandbox.service import Service, Surroundings
from tocsin.sandbox.webhook.service import Webhook
from tocsin.sandbox.webpush.service import WebPush

SERVICES: tuple[Callable[[Surroundings], Service], ...] = (Fcm, Apns, Expo, WebPush, Webhook)
