"""Why signing in with OpenID Connect ends without a session."""


class IssuerUnavailableError(Exception):
    """The issuer does not answer, or not as OpenID Connect asks for; the log has the cause."""


class SignInRefusedError(Exception):
    """The answer of the issuer is refused; the message has the reason, and never a token or code."""


class NoRoleError(Exception):
    """Somebody signed in at the issuer who has no role here."""

    def __init__(self, subject: str, name: str) -> None:
        super().__init__("no role")
        self.subject = subject
        self.name = name
