import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import browser  # noqa: F401 - a fixture
from tests.browser.visits import Visit
from tests.examples.running import example_folder, start_example

STORY = """
An intent of each type
  type                                   events    mails
  geo.review_recommended                 -         1 of 1
  game.turn.ready                        3 of 3    3 of 3
  game.finished                          3 of 3    3 of 3
  game.generation_failed                 -         2 of 2
  lobby.runtime_paused_after_start       -         1 of 1
  lobby.application.submitted            1 of 1    2 of 2
  lobby.membership.approved              1 of 1    1 of 1
  lobby.membership.rejected              1 of 1    1 of 1
  lobby.membership.blocked               1 of 1    1 of 1
  lobby.invite.created                   1 of 1    1 of 1
  lobby.invite.redeemed                  1 of 1    1 of 1
  lobby.invite.expired                   -         1 of 1
  lobby.race_name.registration_eligible  1 of 1    1 of 1
  lobby.race_name.registered             1 of 1    1 of 1
  lobby.race_name.registration_denied    -         1 of 1
"""


class Running:
    """The example, kept running, and what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        self.said = ""
        for line in process.stdout:
            self.said += line
            if line.startswith("Open http"):
                break
        else:
            assert process.stderr
            pytest.fail(self.said + process.stderr.read())
        self.page = re.findall(r"http://[0-9.:]+", self.said)[-1]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with example_folder() as folder, start_example("galaxy", folder, "--stay") as process:
        try:
            yield Running(process)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 1
            assert process.stderr
            assert process.stderr.read() == "Stopped.\n"
        finally:
            process.terminate()


@pytest.fixture
async def page(running: Running, browser: Browser) -> AsyncIterator[Page]:  # noqa: F811 - the fixture
    context = await browser.new_context(reduced_motion="reduce", viewport={"width": 1400, "height": 1000})
    visit = Visit(await context.new_page(), running.page)
    await visit.begin()
    yield visit.page
    assert visit.complaints == []
    await context.close()


def test_an_intent_of_each_type_becomes_its_events_and_mails(running: Running) -> None:
    assert STORY in running.said
    assert all(len(line) <= 80 for line in running.said.splitlines())


async def test_the_page_shows_every_event_and_mail_as_it_arrives(page: Page) -> None:
    complete = page.locator("td.done")
    await expect(complete).to_have_count(25)
    await expect(page.locator("#event_count")).to_have_text("14")
    turn = page.locator("#events li", has_text="game.turn.ready").filter(has_text="Kerem")
    await expect(turn.locator("dd")).to_have_text(["game-7", "42"])
    mail = page.locator("#mails li", has_text="Turn generation failed: Perseus Arm").first
    await mail.get_by_text("Text", exact=True).click()
    await expect(mail.locator("pre")).to_contain_text("Reason: the engine ran out of memory")

    await page.get_by_role("button", name="Send all again").click()

    await expect(page.locator("#event_count")).to_have_text("28")
    await expect(complete).to_have_count(25)
    await expect(page.get_by_role("row", name="game.turn.ready")).to_contain_text("6 of 6")
