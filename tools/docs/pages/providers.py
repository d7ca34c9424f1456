"""The reference of providers, from the registry."""

from tocsin.providers.registry import BUILT_IN, ProviderEntry
from tools.docs.markdown import NONE, code, codes, page, table


def providers_page() -> str:
    """Build the page."""
    return page(
        "Providers",
        "The providers in `src/tocsin/providers/registry.py`. Each has a section of the "
        "[settings](settings.md), a rate limit in `[rates]` and a page of its answers.",
        table(
            ["provider", "channel", "devices", "messages per second", "most in flight per worker", "answers"],
            map(_row, BUILT_IN),
        ),
        "The numbers are the defaults; the rate counts all workers together.",
        "[A provider of your own](../guides/new-provider.md) shows how to add one.",
    )


def _row(entry: ProviderEntry) -> list[str]:
    settings = entry.settings()
    at_once = getattr(settings, "max_concurrency", None) or getattr(settings, "connections", NONE)
    return [
        code(entry.name),
        code(entry.channel),
        codes(entry.devices.token_kinds) if entry.devices else NONE,
        f"{entry.rate:g}" if entry.rate else "no limit",
        str(at_once),
        f"[{entry.title}]({entry.name}.md)",
    ]
