"""A look at the sandbox's page through a real browser."""

from playwright.async_api import ConsoleMessage, Page, Request, expect

from tests.waiting import until


class Visit:
    """One open page, with everything it complained of and asked of other hosts."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._requests: list[Request] = []
        self._address = address
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._see)

    @property
    def requests_elsewhere(self) -> list[str]:
        """The addresses of other origins that were asked for and not held back by a policy."""
        return [
            request.url
            for request in self._requests
            if not request.url.startswith(f"{self._address}/") and request.failure != "csp"
        ]

    async def begin(self) -> None:
        """Open the page and wait until it has heard from the sandbox."""
        await self.page.goto(self._address)
        await expect(self.page.get_by_role("status")).to_have_text("Live")

    async def complained(self, text: str) -> None:
        """Wait until the browser has complained of something on the page."""
        await until(lambda: any(text in complaint for complaint in self.complaints))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _see(self, request: Request) -> None:
        self._requests.append(request)
