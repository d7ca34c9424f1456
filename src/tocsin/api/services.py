"""The services that handlers use."""

from collections.abc import Mapping

import msgspec

from tocsin.api.auth.oidc.settings import OidcSettings
from tocsin.api.settings import AuthSettings, DashboardSettings, HttpSettings
from tocsin.domain.delivery.receipts import ReceiptSettings
from tocsin.domain.people.device_tokens import DeviceRules
from tocsin.domain.people.devices import DeviceSettings
from tocsin.domain.people.unsubscribe import UnsubscribeSettings
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.clock import Clock
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.engine.inspect.explain import Explainer
from tocsin.engine.platform_endpoints import PlatformEndpoints
from tocsin.engine.webpush_keys import WebPushKeys
from tocsin.logs import LogSettings
from tocsin.providers.webhook.settings import WebhookSettings
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The services of an app; `schema` is where the readiness probe looks for migrations.

    `cookie_suffix` ends the names of the dashboard's cookies.
    """

    pool: Pool
    acceptor: Acceptor
    explainer: Explainer
    clock: Clock
    schema: str
    cookie_suffix: str
    providers: tuple[ProviderInUse, ...] = ()
    auth: AuthSettings = AuthSettings()
    devices: DeviceSettings = DeviceSettings()
    device_rules: Mapping[str, DeviceRules] = {}
    unsubscribe: UnsubscribeSettings = UnsubscribeSettings()
    receipts: ReceiptSettings = ReceiptSettings()
    http: HttpSettings = HttpSettings()
    dashboard: DashboardSettings = DashboardSettings()
    oidc: OidcSettings = OidcSettings()
    webhook: WebhookSettings = WebhookSettings()
    webpush_keys: WebPushKeys | None = None
    platform_endpoints: PlatformEndpoints | None = None
    data_keys: DataKeys = NO_KEYS
    slow_seconds: float = LogSettings().slow_seconds
