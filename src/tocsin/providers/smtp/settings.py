"""The settings of mail."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.providers.settings import ProviderSettings
from tocsin.providers.smtp.render import read_mailbox

_TLS_PORT = 465


class SmtpSettings(ProviderSettings, frozen=True, kw_only=True):
    """The settings section `smtp`; without a host no mail is sent."""

    section: ClassVar[str] = "smtp"
    enabled_by: ClassVar[str] = "host"

    host: str | None = None
    """The mail server. Left out, no mail is sent."""
    port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    """Its port: 587 for `starttls`, 465 for `tls`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """`none` is plain text; with a password only to this machine."""
    username: str | None = None
    """The account, if the server requires one."""
    password: str | None = None
    """Its password."""
    sender: str | None = None
    """The address in `From`, such as `Acme <notify@acme.example>`."""
    reply_to: str | None = None
    """The address for replies. Left out: the sender."""
    connections: Annotated[int, Meta(ge=1, le=500)] = 20
    """The most open connections of each worker, each for one mail at a time; fewer are used while the server
    is slow or refuses more."""
    timeout: Annotated[float, Meta(gt=0, le=300)] = 20.0
    """Seconds a mail may take in all."""

    def __repr__(self) -> str:
        """Show the address of the server, not the account."""
        return f"SmtpSettings(host={self.host!r}, port={self.port}, security={self.security!r})"

    def faults(self) -> Iterator[Fault]:
        """List what is wrong with the settings of mail, once there is a host."""
        if self.host is None:
            return
        if self.sender is None:
            message = "must be set with smtp.host, such as 'Acme <notify@acme.example>'"
            yield self.fault("sender", "missing", message)
        for name, text in (("sender", self.sender), ("reply_to", self.reply_to)):
            mailbox = None if text is None else read_mailbox(text)
            if text is not None and (mailbox is None or mailbox.needs_utf8):
                message = (
                    "must be a mail address in ASCII, with a name if you like: 'Acme <notify@acme.example>'"
                )
                yield self.fault(name, "invalid", message)
        if (self.username is None) != (self.password is None):
            missing = "username" if self.username is None else "password"
            yield self.fault(missing, "missing", "must be set too: a user name and a password go together")
        if self.security == "none" and self.password is not None and not _is_loopback(self.host):
            message = "must be 'starttls' or 'tls' when a password is sent to another machine"
            yield self.fault("security", "insecure", message)
        if self.security == "starttls" and self.port == _TLS_PORT:
            message = (
                f"must be 'tls' with smtp.port {_TLS_PORT}, where a server speaks TLS from the first byte on"
            )
            yield self.fault("security", "contradiction", message)
        yield from super().faults()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
