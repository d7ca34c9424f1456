"""Control of the scans, which run every minute."""

import asyncio

import msgspec
from pyreqwest.client import Client, ClientBuilder

from examples.demonstration import say, until

SCANS = ("new_customer", "new_customer_in_python")


class Progress(msgspec.Struct, frozen=True):
    """The progress of a scan."""

    name: str
    checkpoint: int | None
    accepted: int
    duplicates: int


class _Known(msgspec.Struct, frozen=True):
    producers: list[Progress]


class Operator:
    """Does by HTTP what `tocsin progress` does in a terminal."""

    def __init__(self, base_url: str, key: str) -> None:
        self._headers = {"Authorization": f"Bearer {key}"}
        self._base_url = base_url

    async def run_scans(self, up_to: int) -> None:
        """Run the scans now, wait until they have passed a customer, and print what they found."""
        async with self._http() as http:

            async def known() -> bool:
                return len(await _scans(http)) == len(SCANS)

            await until(known, "a worker that knows the scans")
            await asyncio.gather(
                *(http.post(f"/v1/admin/progress/{name}/run").build().send() for name in SCANS)
            )

            async def past() -> bool:
                return all(scan.checkpoint == up_to for scan in await _scans(http))

            await until(past, f"the scans to pass customer {up_to}")
            found = await _scans(http)
        accepted, before = sum(scan.accepted for scan in found), sum(scan.duplicates for scan in found)
        say(f"  {len(found)} scans, at customer {up_to}: {accepted} accepted, {before} known before")

    def _http(self) -> Client:
        building = ClientBuilder().base_url(self._base_url).default_headers(self._headers)
        return building.error_for_status(True).build()


async def _scans(http: Client) -> list[Progress]:
    response = await http.get("/v1/admin/progress").build().send()
    known = msgspec.json.decode(bytes(await response.bytes()), type=_Known)
    return [producer for producer in known.producers if producer.name in SCANS]
