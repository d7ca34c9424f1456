"""`python -m examples.inbox`: a page with the bell of `<tocsin-inbox>`, and a button that rings it."""

import asyncio

from examples.demonstration import run, say
from examples.inbox.site import Site
from examples.playground import playground
from tocsin.api.settings import HttpSettings
from tocsin.cli.run.probes import served_beside
from tocsin.logs import LogSettings, configure_logs


async def example() -> None:
    """Start everything, send a first announcement, and serve the page until it is stopped."""
    configure_logs(LogSettings(level="warning"))
    async with playground() as town:
        await town.start_tocsin(TOCSIN_INBOX__ENABLED="true")
        tocsin = await town.client("shop")
        async with Site(tocsin, town.base_url, town.token) as site:
            await site.announce("ada", "Welcome", "This is your inbox.")
            async with served_beside(
                site.app(), HttpSettings(port=0, drain_seconds=1), section="page"
            ) as address:
                say(f"Open {address}/ in two tabs. Ctrl-C ends everything.")
                await asyncio.Event().wait()


if __name__ == "__main__":
    run(example)
