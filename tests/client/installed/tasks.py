"""A Celery application whose task sends by Tocsin; the client is made before the worker forks."""

import os
from pathlib import Path

from celery import Celery

from tocsin.client import Tocsin

folder = Path(os.environ["QUEUE_FOLDER"])
for name in ("messages", "control", "results"):
    (folder / name).mkdir(exist_ok=True)

app = Celery("shop", broker="filesystem://", backend=f"file://{folder}/results")
app.conf.broker_transport_options = {
    "data_folder_in": str(folder / "messages"),
    "data_folder_out": str(folder / "messages"),
    "control_folder": str(folder / "control"),
}
tocsin = Tocsin(os.environ["PRODUCER_URL"], os.environ["PRODUCER_KEY"])


@app.task(name="welcome")  # type: ignore[untyped-decorator]  # Celery ships no types
def welcome(user_id: str) -> list[str]:
    """Send from a forked worker and tell which process did."""
    sent = tocsin.send("new_customer", users=[user_id], payload={"customer_name": "Celery"})
    return [str(sent.notification_id), str(os.getpid())]
