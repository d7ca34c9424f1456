"""Why a record was not delivered."""


class RetryLaterError(Exception):
    """The record can be delivered later: a service did not answer, or answered that it is busy."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class NeverDeliveredError(Exception):
    """No later attempt would deliver the record: it is not readable, or the service refuses its content."""

    def __init__(self, code: str, detail: str | None = None) -> None:
        self.code = code
        self.detail = detail
        super().__init__(code)


class BatchFailedError(Exception):
    """Records were not delivered, and the event has no way to report which: Lambda repeats all of it."""
