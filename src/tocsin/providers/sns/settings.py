"""The settings of Amazon SNS mobile push."""

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.providers.settings import ProviderSettings

PushService: TypeAlias = Literal["GCM", "APNS", "APNS_SANDBOX"]
"""The push services behind SNS, by the names that SNS has for them."""

_APP_ARN = re.compile(
    r"arn:aws[a-z-]*:sns:(?P<region>[a-z0-9-]+):(?P<account>[0-9]{12}):app/(?P<service>[A-Z_]+)/"
    r"[A-Za-z0-9_.-]{1,256}"
)
_ENDPOINT_ARN = re.compile(
    r"arn:aws[a-z-]*:sns:[a-z0-9-]{1,64}:[0-9]{12}:endpoint/(?P<service>[A-Z_]+)/"
    r"[A-Za-z0-9_.-]{1,256}/[A-Za-z0-9-]{1,64}"
)


def service_of(endpoint_arn: str) -> PushService | None:
    """Return the push service of an endpoint; None for what is no endpoint of a service in use here."""
    found = _ENDPOINT_ARN.fullmatch(endpoint_arn)
    return next((each for each in get_args(PushService) if found and each == found["service"]), None)


class SnsSettings(ProviderSettings, frozen=True, kw_only=True):
    """The settings section `sns`; without a platform application SNS is not used.

    The credentials are those of the section `aws`; the region is that of the platform applications.
    """

    section: ClassVar[str] = "sns"
    enabled_by: ClassVar[str] = "gcm_app_arn"

    max_concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 100
    """The most messages in flight at once in each worker; it adapts to how the provider copes."""
    gcm_app_arn: str | None = None
    """The platform application of FCM (`…:app/GCM/…`), for Android and browsers."""
    apns_app_arn: str | None = None
    """The platform application of APNs (`…:app/APNS/…`, or `…:app/APNS_SANDBOX/…` for apps that Xcode
    installed). Without it and `gcm_app_arn`, SNS is not used.
    """
    apns_topic: str | None = None
    """The bundle id that pushes to Apple devices carry. Left out: that of the platform application."""
    base_url: str | None = None
    """The address of SNS; change it only for a [sandbox](../guides/sandbox.md). Left out:
    `aws.endpoint_url`, or that of AWS.
    """

    @property
    def is_configured(self) -> bool:
        """Whether there is a platform application."""
        return bool(self.app_arns)

    @property
    def app_arns(self) -> tuple[str, ...]:
        """The platform applications."""
        return tuple(filter(None, (self.gcm_app_arn, self.apns_app_arn)))

    @property
    def region(self) -> str:
        """The region of the platform applications."""
        return self.app_arns[0].split(":")[3]

    def app_arn(self, platform: str) -> str | None:
        """Return the platform application of a device's platform; None if there is none."""
        return self.apns_app_arn if platform == "ios" else self.gcm_app_arn

    def owns(self, endpoint_arn: str) -> bool:
        """Return whether an endpoint is in the account and region of the platform applications."""
        return endpoint_arn.split(":")[3:5] == self.app_arns[0].split(":")[3:5]

    def faults(self) -> Iterator[Fault]:
        """List what cannot work in the settings of SNS."""
        found = {
            name: _APP_ARN.fullmatch(getattr(self, name) or "") for name in ("gcm_app_arn", "apns_app_arn")
        }
        services = {"gcm_app_arn": ("GCM",), "apns_app_arn": ("APNS", "APNS_SANDBOX")}
        for name, match in found.items():
            if getattr(self, name) is not None and (match is None or match["service"] not in services[name]):
                forms = " or ".join(
                    f"arn:aws:sns:<region>:<account>:app/{each}/<name>" for each in services[name]
                )
                yield self.fault(name, "invalid", f"must be the ARN of a platform application: {forms}")
        places = {(match["region"], match["account"]) for match in found.values() if match}
        if len(places) > 1:
            message = "must be in the same region and account as sns.gcm_app_arn"
            yield self.fault("apns_app_arn", "contradiction", message)
        if self.base_url is not None and not self.base_url.startswith(("https://", "http://")):
            yield self.fault("base_url", "invalid", "must start with https:// (or http:// for a sandbox)")
        yield from super().faults()
