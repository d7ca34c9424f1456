"""A Celery application with one task: send one message with `messaging.send`."""

import os
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_process_init
from firebase_admin import messaging

from bench.programs.firebase import connect, message

app = Celery("bench", broker=os.environ["BENCH_REDIS"])
# No result backend and no events: nothing but the work itself.
app.conf.update(
    task_ignore_result=True, worker_hijack_root_logger=False, broker_connection_retry_on_startup=True
)


def _connect_threads(sender: Any, **_: Any) -> None:
    # Prefork children connect themselves: a connection must not be shared across a fork.
    if "prefork" not in sender.pool_cls.__module__:
        connect()


def _connect_process(**_: Any) -> None:
    connect()


worker_init.connect(_connect_threads)
worker_process_init.connect(_connect_process)


@app.task(name="send")  # type: ignore[untyped-decorator]
def send(number: int) -> None:
    """Send message `number`."""
    messaging.send(message(number))
