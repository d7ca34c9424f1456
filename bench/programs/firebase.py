"""The official SDK, unchanged but for the address it sends to."""

import os

import firebase_admin
import requests
from firebase_admin import _http_client, credentials, messaging

from bench.contract import token

CONNECTIONS = 100


def connect() -> firebase_admin.App:
    """Point the SDK at the sandbox and sign in with its service account."""
    url = os.environ["BENCH_FCM_URL"]
    service = messaging._MessagingService  # noqa: SLF001  the SDK has no public setting for its address
    service.FCM_URL = url + "/v1/projects/{0}/messages:send"
    app = firebase_admin.initialize_app(credentials.Certificate(os.environ["BENCH_CREDENTIALS"]))
    # The SDK mounts its pool of 100 connections on Google's address only; the new address gets the same pool.
    messaging._get_messaging_service(app)._client.session.mount(  # noqa: SLF001
        url,
        requests.adapters.HTTPAdapter(
            pool_connections=CONNECTIONS,
            pool_maxsize=CONNECTIONS,
            max_retries=_http_client.DEFAULT_RETRY_CONFIG,
        ),
    )
    return app


def message(number: int) -> messaging.Message:
    """Compose message `number`."""
    return messaging.Message(
        token=token(number),
        notification=messaging.Notification(title="A new customer", body=f"Customer {number} has signed up."),
        data={"type": "new_customer", "delivery_id": str(number)},
    )
