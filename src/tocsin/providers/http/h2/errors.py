"""What can go wrong with a request.

RequestFailedError           no answer came
├─ RequestTimeoutError       not in time
├─ ConnectFailedError        no connection came about
│  └─ NotHttp2Error          the peer does not speak HTTP/2
├─ ConnectionLostError       the connection ended before the answer
├─ StreamResetError          the peer or this client gave up this request alone
└─ ClientClosedError         this client was closed
"""


class RequestFailedError(Exception):
    """A request without an answer.

    `may_be_processed` is whether the peer may have acted on it. Without it a repeat is safe.
    """

    def __init__(self, detail: str, *, may_be_processed: bool) -> None:
        self.may_be_processed = may_be_processed
        super().__init__(detail)


class RequestTimeoutError(RequestFailedError, TimeoutError):
    """The answer did not come in time."""


class ConnectFailedError(RequestFailedError):
    """No connection to the peer came about."""

    def __init__(self, detail: str, *, may_be_processed: bool = False) -> None:
        super().__init__(detail, may_be_processed=may_be_processed)


class NotHttp2Error(ConnectFailedError):
    """The peer does not speak HTTP/2; it may speak HTTP/1.1."""


class ConnectionLostError(RequestFailedError):
    """The connection ended before the answer came."""


class StreamResetError(RequestFailedError):
    """The stream of this request alone was reset."""


class ClientClosedError(RequestFailedError):
    """The client was closed before the answer came."""
