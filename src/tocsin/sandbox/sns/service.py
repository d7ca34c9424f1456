"""Stand-in for Amazon SNS mobile push, in its query protocol."""

import contextlib
import uuid
from collections.abc import Mapping
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from tocsin.sandbox.faults.rules import Cut, Hang, Refuse
from tocsin.sandbox.phones import Push
from tocsin.sandbox.responses import RefusedRequestError, Response
from tocsin.sandbox.sns.endpoints import Endpoint, Endpoints
from tocsin.sandbox.sns.errors import ERRORS, error, refuse, result
from tocsin.sandbox.sns.message import parse_publish
from tocsin.sandbox.stand_in import HttpStandIn, ReceivedRequest, SandboxContext

PUBLISH = "Publish"
_NO_ENDPOINT = "Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified"
_SIGNED = "AWS4-HMAC-SHA256 Credential="
_MOST_FIELDS = 200


def call_about(action: str, target: str) -> str:
    """Return the target under which faults of a call other than Publish are scripted.

    A call is about an endpoint's ARN, but for CreatePlatformEndpoint, which is about a token.
    """
    return f"{action}:{target}"


class Sns(HttpStandIn):
    """Endpoints of any platform application, and Publish to them.

    Whoever signs a request may make it: signatures are not verified. Faults of messages are scripted by the
    ARN of the endpoint, those of other calls by `call_about` them.
    """

    name = "sns"
    codes = frozenset(ERRORS)
    outage_code = "ServiceUnavailable"

    def __init__(self, context: SandboxContext) -> None:
        super().__init__(context)
        self.endpoints = Endpoints()
        self._actions = {
            PUBLISH: self._publish,
            "CreatePlatformEndpoint": self._create,
            "GetEndpointAttributes": self._get,
            "SetEndpointAttributes": self._set,
            "DeleteEndpoint": self._delete,
        }

    def reset(self) -> None:
        """Forget faults, counts and endpoints."""
        super().reset()
        self.endpoints.clear()

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request is a call of SNS."""
        return method == "POST" and path == "/"

    def _error(self, code: str, request: ReceivedRequest) -> Response:
        form = _form(request)
        return error(code, form.get("TargetArn") or form.get("EndpointArn") or form.get("Token") or "")

    def _handle(self, request: ReceivedRequest) -> Response | Hang | Cut:
        authorization = request.header("authorization") or ""
        if not authorization.startswith(_SIGNED) or "/sns/aws4_request" not in authorization:
            self._refuse("MissingAuthenticationToken", request)
        form = _form(request)
        action = form.get("Action", "")
        if action not in self._actions:
            self._refuse("InvalidAction", request)
        about = form.get("TargetArn") or form.get("EndpointArn") or form.get("Token") or ""
        fault = self.faults.next_fault(about if action == PUBLISH else call_about(action, about))
        if isinstance(fault, Refuse):
            return self._error(fault.code, request).with_retry_after(fault.retry_after)
        if isinstance(fault, Hang | Cut):
            if fault.delivered:
                with contextlib.suppress(RefusedRequestError):
                    self._actions[action](form)
            return fault
        return self._actions[action](form)

    def _publish(self, form: Mapping[str, str]) -> Response:
        arn = form.get("TargetArn", "")
        endpoint = self.endpoints.find(arn)
        if endpoint is None:
            raise refuse("InvalidParameter", _NO_ENDPOINT)
        published = parse_publish(form, endpoint.service)
        wait = self.faults.take_project_quota(endpoint.application)
        wait = self.faults.take_device_quota(arn) if wait is None else wait
        if wait is not None:
            raise RefusedRequestError(error("Throttled").with_retry_after(wait))
        if not self._phones.is_registered(arn):
            # The push service says so later; from then on SNS refuses the endpoint.
            endpoint.enabled = False
        if not endpoint.enabled:
            raise RefusedRequestError(error("EndpointDisabled"))
        message_id = str(uuid.uuid4())
        self._receive(
            Push(
                target=arn,
                message_id=message_id,
                delivery_id=published.delivery_id,
                message=published.content,
            )
        )
        return result(PUBLISH, f"<MessageId>{message_id}</MessageId>")

    def _create(self, form: Mapping[str, str]) -> Response:
        endpoint = self.endpoints.create(
            form.get("PlatformApplicationArn", ""), form.get("Token", ""), form.get("CustomUserData")
        )
        return result("CreatePlatformEndpoint", f"<EndpointArn>{endpoint.arn}</EndpointArn>")

    def _get(self, form: Mapping[str, str]) -> Response:
        entries = "".join(
            f"<entry><key>{name}</key><value>{escape(value)}</value></entry>"
            for name, value in self._endpoint(form).attributes().items()
        )
        return result("GetEndpointAttributes", f"<Attributes>{entries}</Attributes>")

    def _set(self, form: Mapping[str, str]) -> Response:
        attributes = {
            form[f"Attributes.entry.{number}.key"]: form.get(f"Attributes.entry.{number}.value", "")
            for number in range(1, _MOST_FIELDS)
            if f"Attributes.entry.{number}.key" in form
        }
        self.endpoints.change(self._endpoint(form), attributes)
        return result("SetEndpointAttributes")

    def _delete(self, form: Mapping[str, str]) -> Response:
        self.endpoints.delete(form.get("EndpointArn", ""))
        return result("DeleteEndpoint")

    def _endpoint(self, form: Mapping[str, str]) -> Endpoint:
        endpoint = self.endpoints.find(form.get("EndpointArn", ""))
        if endpoint is None:
            raise RefusedRequestError(error("NotFound"))
        return endpoint


def _form(request: ReceivedRequest) -> dict[str, str]:
    try:
        fields = parse_qsl(request.body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise refuse("InvalidParameter", "Invalid parameter: the request is no form") from None
    return dict(fields)
