"""Checks what settings say together."""

from collections.abc import Collection, Iterator
from itertools import chain

import msgspec

from tocsin.api.auth.oidc.settings import oidc_settings_faults
from tocsin.api.settings import auth_settings_faults, dashboard_settings_faults
from tocsin.aws.archive.settings import archive_settings_faults
from tocsin.domain.delivery.receipts import receipt_settings_faults
from tocsin.domain.delivery.settings import delivery_settings_faults
from tocsin.domain.faults import Fault
from tocsin.domain.people.devices import device_settings_faults
from tocsin.domain.people.unsubscribe import unsubscribe_settings_faults
from tocsin.domain.plan import HAND_OFF
from tocsin.domain.retention import retention_settings_faults
from tocsin.domain.timing.quiet_hours import quiet_hours_faults
from tocsin.engine.health.settings import health_settings_faults
from tocsin.engine.periodic.settings import periodic_settings_faults
from tocsin.engine.retention.schedule import pruning_schedule_faults
from tocsin.engine.toggles.settings import toggles_settings_faults
from tocsin.gateway.settings import gateway_settings_faults
from tocsin.ingress.directory.settings import directory_settings_faults
from tocsin.ingress.outbox.settings import outbox_settings_faults
from tocsin.ingress.redis_streams.settings import (
    reader_faults,
    shared_stream_faults,
    stream_settings_faults,
)
from tocsin.ingress.redis_streams.settings import url_fault as redis_url_fault
from tocsin.ingress.sqs.settings import queue_settings_faults
from tocsin.providers.aws.settings import aws_settings_faults
from tocsin.providers.sns.settings import SnsSettings
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings, providers_in_use, stream_providers
from tocsin.store.pool import schema_fault, url_fault
from tocsin.store.secrets.sealing import data_settings_faults

SETTLE_SLACK = 5.0


def contradictions(settings: Settings, faulty: Collection[str]) -> Iterator[Fault]:
    """List the faults of settings that are valid each by itself; `faulty` are those that are not."""
    entries = settings.registry.values()
    for fault in (
        *auth_settings_faults(settings.auth, with_oidc=settings.oidc.issuer is not None),
        *oidc_settings_faults(settings.oidc),
        *dashboard_settings_faults(settings.dashboard, settings.http, settings.oidc),
        *data_settings_faults(settings.data),
        *delivery_settings_faults(settings.delivery),
        *device_settings_faults(settings.devices),
        *quiet_hours_faults(settings.quiet_hours),
        *unsubscribe_settings_faults(settings.unsubscribe),
        *receipt_settings_faults(settings.receipts),
        *toggles_settings_faults(settings.toggles),
        *periodic_settings_faults(settings.periodic),
        *health_settings_faults(settings.health),
        *retention_settings_faults(settings.retention),
        *pruning_schedule_faults(settings.retention),
        *chain.from_iterable(settings.provider(entry.settings).faults() for entry in entries),
        *outbox_settings_faults(settings.outboxes),
        *stream_settings_faults(settings.redis, settings.streams),
        *shared_stream_faults(settings.redis, settings.streams, msgspec.structs.asdict(settings)),
        *directory_settings_faults(settings.directory),
        *gateway_settings_faults(settings.gateway),
        *reader_faults("mailer", settings.mailer),
        *aws_settings_faults(settings.aws),
        *_organisation_faults(settings),
        *queue_settings_faults(settings.queues),
        *archive_settings_faults(settings.archive),
    ):
        named = setting_name(tuple(fault.field.split(".")))
        yield Fault(field=named, code=fault.code, message=fault.message)
    urls: dict[tuple[str, ...], str | None] = {("database_url",): settings.database_url}
    urls |= {("outboxes", name, "url"): outbox.url for name, outbox in settings.outboxes.items()}
    urls |= {("periodic", "databases", name): url for name, url in settings.periodic.databases.items()}
    for path, url in urls.items():
        if url and (message := url_fault(url)):
            yield Fault(field=setting_name(path), code="invalid", message=message)
    for section in stream_providers(settings):
        if section.url != settings.redis.url and (message := redis_url_fault(section.url)):
            yield Fault(field=setting_name((section.section, "url")), code="invalid", message=message)
    if message := schema_fault(settings.schema):
        yield Fault(field=setting_name(("schema",)), code="invalid", message=message)
    if settings.http.fisa_paths and not settings.provider(SnsSettings).is_configured:
        message = "needs Amazon SNS: set sns.gcm_app_arn or sns.apns_app_arn, since an endpoint is returned"
        yield Fault(field=setting_name(("http", "fisa_paths")), code="contradiction", message=message)
    if settings.catalog and not settings.catalog.is_dir():
        yield Fault(field=setting_name(("catalog",)), code="missing", message="is not a folder")
    if {"dispatch", *settings.registry}.isdisjoint(each.partition(".")[0] for each in faulty):
        yield from _lease_faults(settings)
        yield from _hand_off_faults(settings)


def _organisation_faults(settings: Settings) -> Iterator[Fault]:
    """List sources that are bound to an organisation while no caller is."""
    sources = {f"outboxes.{name}": outbox.org_id for name, outbox in settings.outboxes.items()}
    sources |= {f"streams.{name}": stream.org_id for name, stream in settings.streams.items()}
    sources |= {f"queues.{name}": queue.org_id for name, queue in settings.queues.items()}
    for name, org_id in {**sources, "mailer": settings.mailer.org_id}.items():
        if org_id is not None and not settings.auth.org_scoping:
            message = "is for auth.org_scoping = true (TOCSIN_AUTH__ORG_SCOPING)"
            yield Fault(field=f"{name}.org_id", code="alone", message=message)


def _lease_faults(settings: Settings) -> Iterator[Fault]:
    """List a lease too short: half of it may be spent waiting, the other half must last for the attempt."""
    in_use = providers_in_use(settings).items()
    timeouts = {name: settings.provider(entry.settings).timeout for name, entry in in_use}
    if not timeouts:
        return
    slowest = max(timeouts, key=lambda name: timeouts[name])
    longest = 2 * timeouts[slowest] + min(SETTLE_SLACK, 2 * timeouts[slowest])
    if settings.dispatch.lease_seconds < longest:
        yield Fault(
            field=setting_name(("dispatch", "lease_seconds")),
            code="contradiction",
            message=f"must be at least {longest:g}: with {setting_name((slowest, 'timeout'))} = "
            f"{timeouts[slowest]:g} a send may begin when half of the lease is over, and it is settled "
            "under the same lease",
        )


def _hand_off_faults(settings: Settings) -> Iterator[Fault]:
    """List providers beside one that takes every message of their channel to another service."""
    in_use = providers_in_use(settings)
    for name in sorted(HAND_OFF & in_use.keys()):
        channel = in_use[name].channel
        for other in sorted(
            each for each, entry in in_use.items() if entry.channel == channel and each != name
        ):
            yield Fault(
                field=setting_name((name, settings.provider(in_use[name].settings).enabled_by)),
                code="contradiction",
                message=f"cannot be used together with {other}: {name} hands every {channel} to another "
                f"service, and a message would have two ways. Remove the settings of one of them",
            )
