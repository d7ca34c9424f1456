"""A queue for threads; a thread of its own sends batches."""

import atexit
import os
import threading
from collections.abc import Callable

from tocsin.client.exchange import Flow
from tocsin.client.intents import Intent
from tocsin.client.queue.buffer import Buffer, QueueLimits
from tocsin.domain.errors import TocsinError


class BlockingQueue:
    """Sends what is queued soon, in batches; a forked process starts with an empty queue."""

    def __init__(self, run: Callable[[Flow[None]], None], limits: QueueLimits) -> None:
        self._run = run
        self._limits = limits
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._buffer = Buffer(self._limits.bound)
        self._sending, self._starting = threading.Lock(), threading.Lock()
        self._queued, self._send_now, self._closing = threading.Event(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, intent: Intent) -> None:
        """Queue an intent; if the queue is full, send what is queued first."""
        self._after_fork()
        if self._closing.is_set():
            raise RuntimeError("this client is closed; make another")
        if self._buffer.is_full:
            self._send(self._buffer.make_room())
        self._buffer.add(intent)
        self._start()
        self._queued.set()
        if self._buffer.fills_a_batch:
            self._send_now.set()

    def flush(self) -> None:
        """Send what is queued, in the caller's thread."""
        self._after_fork()
        self._send(self._buffer.flush())

    def close(self) -> None:
        """Send what is queued and stop; raise with what cannot be sent."""
        self._after_fork()
        self._closing.set()
        self._send_now.set()
        self._queued.set()
        if self._thread:
            self._thread.join()
            atexit.unregister(self.close)
            self._thread = None
        self._send(self._buffer.finish())

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._begin()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="tocsin-queue", daemon=True)
                self._thread.start()
                # A daemon thread ends with the program; what is still queued must be sent.
                atexit.register(self.close)

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._queued.wait()
            self._send_now.wait(self._limits.linger_seconds)
            self._queued.clear()
            self._send_now.clear()
            if self._closing.is_set():
                return
            try:
                self._send(self._buffer.drain())
            except TocsinError:
                # It stays queued; flush, close, or a put into the full queue raises the failure.
                self._closing.wait(self._limits.trouble_seconds)
                self._queued.set()

    def _send(self, flow: Flow[None]) -> None:
        with self._sending:
            self._run(flow)
