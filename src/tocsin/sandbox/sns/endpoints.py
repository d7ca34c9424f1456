"""The platform endpoints of the stand-in: one for each token of a platform application."""

import re
import uuid
from collections.abc import Mapping

import msgspec

from tocsin.sandbox.sns.errors import refuse

_APPLICATION = re.compile(
    r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:app/(GCM|APNS|APNS_SANDBOX)/[\w.-]{1,256}"
)
_APPLE_TOKEN = re.compile(r"[0-9A-Fa-f]{1,400}")
_MOST_USER_DATA = 2_048
_SETTABLE = frozenset({"CustomUserData", "Enabled", "Token"})


class Endpoint(msgspec.Struct):
    """An endpoint with its attributes."""

    arn: str
    application: str
    token: str
    enabled: bool = True
    user_data: str | None = None

    @property
    def service(self) -> str:
        """The push service, such as GCM."""
        return self.arn.split("/")[1]

    def attributes(self) -> dict[str, str]:
        """Return the attributes as SNS lists them."""
        listed = {"Enabled": str(self.enabled).lower(), "Token": self.token}
        return listed if self.user_data is None else listed | {"CustomUserData": self.user_data}


class Endpoints:
    """Every endpoint, by ARN and by token."""

    def __init__(self) -> None:
        self._endpoints: dict[str, Endpoint] = {}
        self._by_token: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._endpoints)

    def create(self, application: str, token: str, user_data: str | None = None) -> Endpoint:
        """Create the endpoint of a token, or return the one it has, if its attributes are the same."""
        found = _APPLICATION.fullmatch(application)
        if found is None:
            raise refuse("InvalidParameter", "Invalid parameter: PlatformApplicationArn Reason: Invalid ARN")
        self._check(found[1], token, user_data)
        existing = self._endpoints.get(self._by_token.get((application, token), ""))
        if existing is None:
            name = application.rpartition(":")[2].replace("app/", "endpoint/", 1)
            arn = f"{application.rpartition(':')[0]}:{name}/{uuid.uuid4()}"
            existing = self._endpoints[arn] = Endpoint(arn, application, token, user_data=user_data)
            self._by_token[application, token] = arn
        elif not existing.enabled or existing.user_data != user_data:
            raise _exists(existing)
        return existing

    def find(self, arn: str) -> Endpoint | None:
        """Return the endpoint with an ARN."""
        return self._endpoints.get(arn)

    def change(self, endpoint: Endpoint, attributes: Mapping[str, str]) -> None:
        """Set attributes of an endpoint."""
        if unknown := attributes.keys() - _SETTABLE:
            text = f"Invalid parameter: Attributes Reason: Invalid attribute name: {min(unknown)}"
            raise refuse("InvalidParameter", text)
        token = attributes.get("Token", endpoint.token)
        user_data = attributes.get("CustomUserData", endpoint.user_data)
        self._check(endpoint.service, token, user_data)
        other = self._endpoints.get(self._by_token.get((endpoint.application, token), ""))
        if other is not None and other is not endpoint:
            raise _exists(other)
        self._by_token.pop((endpoint.application, endpoint.token), None)
        self._by_token[endpoint.application, token] = endpoint.arn
        endpoint.token, endpoint.user_data = token, user_data
        if "Enabled" in attributes:
            endpoint.enabled = attributes["Enabled"].lower() == "true"

    def delete(self, arn: str) -> None:
        """Delete an endpoint; one that does not exist is no error."""
        if endpoint := self._endpoints.pop(arn, None):
            self._by_token.pop((endpoint.application, endpoint.token), None)

    def clear(self) -> None:
        """Forget every endpoint."""
        self._endpoints.clear()
        self._by_token.clear()

    def _check(self, service: str, token: str, user_data: str | None) -> None:
        if not token:
            raise refuse("InvalidParameter", "Invalid parameter: Token")
        if service.startswith("APNS") and not _APPLE_TOKEN.fullmatch(token):
            rule = "iOS device tokens must be no more than 400 hexadecimal characters"
            raise refuse("InvalidParameter", f"Invalid parameter: Token Reason: {rule}")
        if len((user_data or "").encode()) > _MOST_USER_DATA:
            raise refuse("InvalidParameter", "Invalid parameter: CustomUserData Reason: too long")


def _exists(endpoint: Endpoint) -> Exception:
    text = (
        f"Invalid parameter: Token Reason: Endpoint {endpoint.arn} already exists with the same Token, "
        "but different attributes."
    )
    return refuse("InvalidParameter", text)
