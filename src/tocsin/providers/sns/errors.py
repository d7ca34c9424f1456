"""Why an endpoint cannot be registered or deleted; the texts quote neither tokens nor ARNs."""


class TokenRefusedError(Exception):
    """SNS refuses the token of the app."""


class SnsUnavailableError(Exception):
    """SNS did not do what it was asked; with `alarm` an operator has to act."""

    def __init__(self, code: str, *, alarm: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.alarm = alarm
