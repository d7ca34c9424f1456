"""A server in front of moto's that answers some requests with the errors of SNS, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs

import urllib3

ERROR = """<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">
<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>1</RequestId>
</ErrorResponse>"""
HANG_UP = "hang up"
NOT_XML = "not XML"


class FaultyAws:
    """Passes requests on; `faults` are the answers for an endpoint, each used once unless it is the last."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.faults: dict[str, list[tuple[int, str, str]]] = {}
        self.published: list[str] = []
        self.url = ""
        self._lock = Lock()

    def fail(self, endpoint_arn: str, status: int, code: str, message: str = "", times: int = 100) -> None:
        """Answer publishes to an endpoint with an error."""
        self.faults[endpoint_arn] = [(status, code, message)] * times

    def next_fault(self, endpoint_arn: str) -> tuple[int, str, str] | None:
        with self._lock:
            self.published.append(endpoint_arn)
            waiting = self.faults.get(endpoint_arn)
            return waiting.pop() if waiting else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    front: FaultyAws
    behind: urllib3.PoolManager

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        target = parse_qs(body.decode()).get("TargetArn", [""])[0]
        fault = self.front.next_fault(target) if target else None
        if fault is None:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            answer = self.behind.request("POST", self.front.behind + self.path, body=body, headers=headers)
            self._answer(answer.status, answer.data)
        elif fault[1] == HANG_UP:
            self.close_connection = True
        elif fault[1] == NOT_XML:
            self._answer(fault[0], b"A proxy refuses this.")
        else:
            self._answer(fault[0], ERROR.format(code=fault[1], message=fault[2]).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Log nothing."""


@contextmanager
def faulty_front(behind: str) -> Iterator[FaultyAws]:
    """Run the server."""
    front = FaultyAws(behind)
    with urllib3.PoolManager(maxsize=16) as pool:
        kind = type("Handler", (_Handler,), {"front": front, "behind": pool})
        with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
            server.daemon_threads = True
            front.url = f"http://127.0.0.1:{server.server_port}"
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield front
            finally:
                server.shutdown()
                thread.join()
