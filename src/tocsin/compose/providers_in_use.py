"""Summaries of the providers that the settings configure."""

from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.settings.tree import Settings, providers_in_use


def providers_by_channel(settings: Settings) -> dict[str, list[str]]:
    """Return the configured providers of each channel."""
    by_channel: dict[str, list[str]] = {}
    for name, entry in providers_in_use(settings).items():
        by_channel.setdefault(entry.channel, []).append(name)
    return by_channel


def provider_summaries(settings: Settings) -> tuple[ProviderInUse, ...]:
    """List the providers in use, each with its channel and its rate."""
    return tuple(
        ProviderInUse(name=name, channel=entry.channel, rate=settings.rates.of(name) or None)
        for name, entry in providers_in_use(settings).items()
    )
