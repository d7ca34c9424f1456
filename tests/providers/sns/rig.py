"""SNS before its stand-in."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from tests.providers.conformance import Rig
from tocsin.engine.clock import utc_now
from tocsin.engine.platform_endpoints import PlatformEndpoints
from tocsin.providers.aws.settings import AwsSettings
from tocsin.providers.sns.endpoints import SnsEndpoints
from tocsin.providers.sns.provider import SnsProvider
from tocsin.providers.sns.settings import SnsSettings
from tocsin.sandbox import Refuse, Sandbox
from tocsin.sandbox.phones import Received
from tocsin.sandbox.sns.service import Sns
from tocsin.store.pool import Pool

REGION = "ap-southeast-1"
ACCOUNT = "123456789012"
GCM = f"arn:aws:sns:{REGION}:{ACCOUNT}:app/GCM/fisa-android"
APNS = f"arn:aws:sns:{REGION}:{ACCOUNT}:app/APNS/fisa-ios"
AWS = AwsSettings(access_key_id="sandbox", secret_access_key="sandbox")


class SnsRig(Rig):
    service = "sns"
    busy = Refuse("ServiceUnavailable", retry_after=7)
    quota = Refuse("Throttled", retry_after=90)
    gone = Refuse("EndpointDisabled")
    rejected = Refuse("InvalidParameter")

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self._arns: dict[str, str] = {}

    @property
    def sns(self) -> Sns:
        return self.sandbox.sns

    def target(self, name: str) -> str:
        return self.endpoint(name)

    def endpoint(self, name: str, application: str = GCM) -> str:
        """Give the ARN of the endpoint whose token has that name."""
        token = name if application == GCM else name.encode().hex()
        known = f"{application}/{name}"
        if known not in self._arns:
            self._arns[known] = self.sns.endpoints.create(application, token).arn
        return self._arns[known]

    def title_of(self, received: Received) -> str:
        title: str = received.message["payload"]["fcmV1Message"]["message"]["notification"]["title"]
        return title

    def build(
        self,
        *,
        base_url: str | None = None,
        timeout_seconds: float = 5.0,
        concurrency: int = 20,
        aws: AwsSettings = AWS,
        **settings: Any,
    ) -> SnsProvider:
        given: dict[str, Any] = {
            "gcm_app_arn": GCM,
            "apns_app_arn": APNS,
            "base_url": base_url or self.sandbox.https_url,
            "timeout": timeout_seconds,
            "max_concurrency": concurrency,
            "ca_file": self.sandbox.ca_file,
        }
        return SnsProvider(SnsSettings(**given | settings), aws)


@asynccontextmanager
async def platform_endpoints(pool: Pool, sandbox: Sandbox) -> AsyncIterator[PlatformEndpoints]:
    """Give what registers devices at the stand-in."""
    settings = SnsSettings(
        gcm_app_arn=GCM,
        apns_app_arn=APNS,
        base_url=sandbox.https_url,
        ca_file=sandbox.ca_file,
        timeout=2.0,
    )
    async with aclosing(SnsEndpoints(settings, AWS)) as endpoints:
        yield PlatformEndpoints(pool, endpoints, utc_now)
