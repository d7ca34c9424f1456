"""A Flask application whose view sends by Tocsin; serves five requests at once and prints their answers."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

from flask import Flask
from werkzeug.serving import make_server

from tocsin.client import Tocsin

app = Flask("shop")
tocsin = Tocsin(os.environ["PRODUCER_URL"], os.environ["PRODUCER_KEY"])


@app.post("/signup/<user_id>")
def signup(user_id: str) -> str:
    """Send within the request."""
    sent = tocsin.send("new_customer", users=[user_id], payload={"customer_name": "Flask"})
    return str(sent.notification_id)


def main(user_id: str) -> None:
    """Serve on a free port with a thread for each request."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()

    def sign_up(_: int) -> str:
        request = Request(f"http://127.0.0.1:{server.port}/signup/{user_id}", method="POST")
        with urlopen(request, timeout=30) as answer:  # noqa: S310 - an address of this process
            said: bytes = answer.read()
            return said.decode()

    with ThreadPoolExecutor(5) as threads:
        print(*threads.map(sign_up, range(5)))  # noqa: T201 - it is a program
    server.shutdown()
    serving.join()
    tocsin.close()


main(sys.argv[1])
