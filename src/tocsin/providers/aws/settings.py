"""Where AWS is, and by which credentials it is called."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault

Name = Annotated[str, Meta(max_length=64, pattern=r"^[a-z0-9-]*\Z")]


class AwsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The account and region of everything that Tocsin uses of AWS.

    Without credentials here the usual chain of AWS applies: variables, profile, role of the machine.
    """

    endpoint_url: str = ""
    region: Name = ""
    access_key_id: str = ""
    secret_access_key: str = ""
    session_token: str = ""
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    max_connections: Annotated[int, Meta(ge=1, le=1_000)] = 50

    def __repr__(self) -> str:
        """Show no credentials."""
        return f"AwsSettings(region={self.region!r})"


def aws_settings_faults(settings: AwsSettings) -> Iterator[Fault]:
    """List what does not fit together."""
    if settings.endpoint_url and not settings.endpoint_url.startswith(("http://", "https://")):
        yield Fault(field="aws.endpoint_url", code="invalid", message="must begin with http:// or https://")
    if bool(settings.access_key_id) != bool(settings.secret_access_key):
        missing = "secret_access_key" if settings.access_key_id else "access_key_id"
        message = "must be set too: the id and the secret of a key belong together"
        yield Fault(field=f"aws.{missing}", code="missing", message=message)
    if settings.session_token and not settings.access_key_id:
        message = "is for temporary credentials: aws.access_key_id and aws.secret_access_key must be set"
        yield Fault(field="aws.session_token", code="contradiction", message=message)
