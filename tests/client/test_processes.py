"""Clients in programs of their own: forked, and ended without a word."""

import os
import subprocess
import sys

from tocsin.client import Tocsin
from tocsin.client.testing import RunningTocsin

CLIENT = """
import os
from tocsin.client import ForkedError, NotFoundError, QueueLimits, Tocsin
NEVER = QueueLimits(linger_seconds=3600)
INTENT = {"type": "new_customer", "users": ["42"], "payload": {"customer_name": "Ada"}}
client = Tocsin(os.environ["PRODUCER_URL"], os.environ["PRODUCER_KEY"], queue_limits=NEVER)
def child_ends_with(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def _said(server: RunningTocsin, code: str) -> str:
    """Run a program that has a client and give what it printed."""
    environment = {**os.environ, "PRODUCER_URL": server.base_url, "PRODUCER_KEY": server.api_key}
    return subprocess.check_output(
        [sys.executable, "-c", CLIENT + code], env=environment, timeout=60, text=True
    ).strip()


def test_a_client_made_before_a_fork_works_after_it(tocsin_server: RunningTocsin) -> None:
    code = """
if (child := os.fork()) == 0:
    os._exit(7 if client.send(**INTENT).status == "accepted" else 1)
print(child_ends_with(child))
"""
    assert _said(tocsin_server, code) == "7"


def test_a_call_before_a_fork_is_explained_after_it(tocsin_server: RunningTocsin) -> None:
    code = """
client.send(**INTENT)
if (child := os.fork()) == 0:
    try:
        client.send(**INTENT)
    except ForkedError as error:
        os._exit(7 if "after the fork" in str(error) else 1)
    os._exit(1)
print(child_ends_with(child))
"""
    assert _said(tocsin_server, code) == "7"


def test_a_forked_process_leaves_the_queue_to_its_parent(tocsin_server: RunningTocsin) -> None:
    code = """
client.queue(**INTENT, idempotency_key="queued before a fork")
if (child := os.fork()) == 0:
    client.flush()
    try:
        client.cancel_by_key("queued before a fork")
    except NotFoundError:
        os._exit(7)
    os._exit(1)
print(child_ends_with(child))
client.flush()
print(client.cancel_by_key("queued before a fork").notification_id)
"""
    code_of_child, notification_id = _said(tocsin_server, code).split()

    assert code_of_child == "7"
    with tocsin_server.client() as client:
        assert client.show(notification_id).idempotency_key == "queued before a fork"


def test_what_a_program_forgot_to_close_is_sent_at_its_end(
    tocsin_server: RunningTocsin, client: Tocsin
) -> None:
    key = _said(tocsin_server, "print(client.queue(**INTENT))")

    cancelled = client.cancel_by_key(key)

    assert client.show(cancelled.notification_id).idempotency_key == key
