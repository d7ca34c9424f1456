"""The shop in a separate process."""

import asyncio
import sys

from pyreqwest.client import ClientBuilder

from examples.demonstration import ExampleError, say
from examples.playground import Playground, answers, free_port


class Shop:
    """Serves the Django project and calls it over HTTP."""

    def __init__(self, town: Playground, database_url: str) -> None:
        self._town = town
        self._port = free_port()
        self._base_url = f"http://127.0.0.1:{self._port}"
        self._environment = {
            "DJANGO_SETTINGS_MODULE": "examples.django_shop.settings",
            "SHOP_DATABASE_URL": database_url,
        }

    async def open(self) -> None:
        """Create the tables, then serve."""
        migrating = await self._run("django", "migrate", "--verbosity=0")
        if await migrating.wait():
            raise ExampleError("The tables of the shop could not be made.")
        application = "examples.django_shop.wsgi:application"
        serving = await self._run(
            "granian",
            application,
            "--interface=wsgi",
            f"--port={self._port}",
            "--blocking-threads=2",
            "--log-level=warning",
        )
        await answers(f"{self._base_url}/", serving)

    async def post(self, path: str, **body: str) -> None:
        """Send a request and print the answer of the shop."""
        async with ClientBuilder().base_url(self._base_url).build() as http:
            response = await http.post(path).body_json(body).build().send()
            answer = await response.json()
        said = answer.get("detail") or f"order {answer['order_number']}"
        say(f"  the shop answers {response.status}: {said}")

    async def _run(self, module: str, *arguments: str) -> asyncio.subprocess.Process:
        return await self._town.run(sys.executable, "-m", module, *arguments, **self._environment)
