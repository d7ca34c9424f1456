"""Devices of Amazon SNS: their endpoints are created there, and deleted with them.

SNS is called outside of transactions. What it did is not undone: if a registration ends between SNS and the
database, the next one of the same token finds the endpoint again.
"""

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import structlog

from tocsin.domain.delivery.backoff import Exponential, delay
from tocsin.domain.people.devices import DeviceSettings, token_hash
from tocsin.engine.clock import Clock
from tocsin.engine.duty import raise_if_cancelled, repeat
from tocsin.providers.sns.errors import SnsUnavailableError, TokenRefusedError
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.people import devices
from tocsin.store.people.devices import BeingDeleted, DeviceRegistration, RegistrationResult
from tocsin.store.people.endpoints.platform import (
    EndpointDeletion,
    OwnEndpoint,
    UsedEndpoint,
    claim_deletions,
    find_own,
    finish_deletion,
    hold_deletions,
    postpone_deletion,
)
from tocsin.store.pool import Pool
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys
from tocsin.store.sources.progress import clear_alarms

if TYPE_CHECKING:
    from tocsin.providers.sns.endpoints import SnsEndpoints

SUBJECT = "sns"
NOT_DELETED = "endpoint_not_deleted"
EVERY_SECONDS = 15.0
AT_ONCE = 10
ALARM_AFTER = 5
BACKOFF = Exponential(timedelta(seconds=5), timedelta(hours=1))
# Longer than the clocks of two processes may differ and a settlement may take.
LEASE_SLACK = timedelta(seconds=30)

_log = structlog.stdlib.get_logger(__name__)


class PlatformEndpoints:
    """Registers devices of SNS, and deletes the endpoints of those that were unregistered or erased."""

    def __init__(self, pool: Pool, sns: "SnsEndpoints", clock: Clock, keys: DataKeys = NO_KEYS) -> None:
        self._pool = pool
        self._sns = sns
        self._clock = clock
        self._keys = keys
        self._lease = timedelta(seconds=sns.settings.timeout) + LEASE_SLACK
        self.wake = asyncio.Event()

    def application(self, platform: str) -> str | None:
        """Return the platform application of a device's platform; None if there is none."""
        return self._sns.settings.app_arn(platform)

    async def register(
        self, registration: DeviceRegistration, application: str, settings: DeviceSettings, now: datetime
    ) -> tuple[str, RegistrationResult]:
        """Make the endpoint of an app's token current and register the device; return its ARN too.

        Raise TokenRefusedError or SnsUnavailableError.
        """
        limited = await devices.count_registration(self._pool, registration.user_id, settings, now)
        if limited:
            return "", limited
        tokens = [token_hash(each) for each in (registration.token, registration.replaces_token) if each]
        if not await hold_deletions(self._pool, tokens, now, now + self._lease):
            return "", BeingDeleted()
        own = await find_own(self._pool, registration.user_id, tokens)
        current = self._arn(each for each in own if each.push_token_hash == tokens[0])
        replaced = self._arn(each for each in own if each.push_token_hash != tokens[0])
        known = current or replaced
        arn = await self._ensure(application, registration, known)
        changed = msgspec.structs.replace(
            registration,
            token=arn,
            replaces_token=next((each for each in (known, replaced) if each and each != arn), None),
            endpoint=UsedEndpoint(push_token_hash=tokens[0], former=known if known != arn else None),
        )
        return arn, await devices.register(self._pool, changed, settings, now, self._keys, is_counted=True)

    async def run(self) -> None:
        """Delete endpoints until cancelled."""
        await repeat(self._delete_some, name="endpoint deletions", every=EVERY_SECONDS, wake=self.wake)

    def _arn(self, found: Iterable[OwnEndpoint]) -> str | None:
        return next((arn for each in found if (arn := each.arn(self._keys))), None)

    async def _ensure(self, application: str, registration: DeviceRegistration, known: str | None) -> str:
        try:
            return await self._sns.ensure(application, registration.token, registration.user_id, known)
        except SnsUnavailableError as error:
            _log.log(
                logging.ERROR if error.alarm else logging.WARNING,
                "endpoint not registered",
                code=error.code,
                alarm=True if error.alarm else None,
            )
            raise

    async def _delete_some(self) -> bool:
        """Delete the endpoints that are due; return whether there may be more."""
        now = self._clock()
        claimed = await claim_deletions(self._pool, now, now + self._lease, AT_ONCE)
        ended = await asyncio.gather(*map(self._delete, claimed), return_exceptions=True)
        for error in filter(None, ended):
            raise error
        return len(claimed) == AT_ONCE

    async def _delete(self, deletion: EndpointDeletion) -> None:
        arn, code = deletion.arn(self._keys), "data_key_missing"
        if arn is not None:
            try:
                await self._sns.delete(arn)
            except (SnsUnavailableError, TokenRefusedError) as error:
                code = str(error)
            except Exception as error:  # noqa: BLE001 - a bug about one endpoint must not stop the others
                raise_if_cancelled()
                code = type(error).__name__
            else:
                await self._finish(deletion)
                return
        failures = deletion.failures + 1
        wait, now = delay(BACKOFF, failures, 0.5), self._clock()
        async with self._pool.acquire() as connection, connection.transaction():
            await postpone_deletion(connection, deletion, now + wait)
            if failures >= ALARM_AFTER:
                detail = f"SNS has refused {failures} times to delete an endpoint: {code}"
                await raise_alarms(connection, {Alarm(SUBJECT, NOT_DELETED, detail): 1}, now)
        _log.warning(
            "endpoint not deleted",
            device_id=str(deletion.device_id),
            code=code,
            failures=failures,
            retry_in_seconds=wait.total_seconds(),
            alarm=True if failures >= ALARM_AFTER else None,
        )

    async def _finish(self, deletion: EndpointDeletion) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            await finish_deletion(connection, deletion)
            if deletion.failures >= ALARM_AFTER:
                await clear_alarms(connection, [SUBJECT], [NOT_DELETED], self._clock())
        _log.info("endpoint deleted", device_id=str(deletion.device_id))
