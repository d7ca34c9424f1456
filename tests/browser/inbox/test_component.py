"""The component by itself: keyboards, directions, hostile texts, errors, preferences and Web Push."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from playwright.async_api import BrowserContext, Page, expect

from tests.browser.inbox.conftest import OpenTab
from tests.browser.inbox.sites import InboxSite
from tocsin.sandbox import Sandbox

HOSTILE = '<img src=x onerror="document.title = 1"><script>document.title = 2</script>'
HOSTILE_LINKS = (
    "javascript:document.title=3",
    " JaVaScRiPt:document.title=4",
    "java\tscript:document.title=5",
    "data:text/html,<script>document.title=6</script>",
    "vbscript:x",
    "myapp://open/this",
)
# Headless browsers have no push service.
SUBSCRIBE = """
(subscription) => {
    let current = null;
    PushManager.prototype.getSubscription = async () => current;
    PushManager.prototype.subscribe = async (options) => (current = {
        options,
        toJSON: () => subscription,
        unsubscribe: async () => ((current = null), true),
    });
}
"""


SHOWN = """
async () => {
    const [registration] = await navigator.serviceWorker.getRegistrations();
    const shown = await registration.getNotifications();
    return shown.some(({ title, body }) => title === "Hello" && body === "World");
}
"""


async def push(page: Page, origin: str, content: dict[str, Any]) -> None:
    """Have the browser get a push, as from its push service."""
    session = await page.context.new_cdp_session(page)
    registered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def hear(event: dict[str, Any]) -> None:
        if event["registrations"] and not registered.done():
            registered.set_result(event["registrations"][0]["registrationId"])

    session.on("ServiceWorker.workerRegistrationUpdated", hear)
    await session.send("ServiceWorker.enable")
    message = {"origin": origin, "registrationId": await registered, "data": json.dumps(content)}
    await session.send("ServiceWorker.deliverPushMessage", message)


async def focused(page: Page) -> str:
    """Return the label or the text of the element that has the focus, within the component or not."""
    focus = "document.activeElement.shadowRoot?.activeElement ?? document.activeElement"
    return str(await page.evaluate(f"(({focus}).ariaLabel ?? ({focus}).innerText).split('\\n')[0]"))


async def test_everything_is_reached_by_the_keyboard_alone(site: InboxSite, open_for: OpenTab) -> None:
    for title in ("Third", "Second", "First"):
        await site.put("esra", title)
    tab = await open_for("esra")
    await tab.expect_unread("3")
    keyboard = tab.page.keyboard
    for key in ("Tab", "Tab", "Enter"):
        await keyboard.press(key)
    await expect(tab.panel).to_be_focused()
    await expect(tab.bell).to_have_attribute("aria-expanded", "true")
    reached = []
    for _ in range(4):
        await keyboard.press("Tab")
        reached.append(await focused(tab.page))
    assert reached == ["Mark all as read", "Preferences", "All", "First"]

    await keyboard.press("ArrowDown")
    await keyboard.press("Enter")
    await tab.expect_unread("2")
    await keyboard.press("ArrowUp")
    for _ in range(2):
        await keyboard.press("Tab")
    assert await focused(tab.page) == "Archive"
    await keyboard.press("Enter")
    await expect(tab.titles).to_have_text(["Second", "Third"])
    assert await focused(tab.page) == "Second"

    await keyboard.press("Shift+Tab")
    await keyboard.press("ArrowRight")
    await expect(tab.titles).to_have_text(["Third"])
    await keyboard.press("End")
    await expect(tab.titles).to_have_text(["First"])
    assert await focused(tab.page) == "Archived"
    await keyboard.press("Escape")
    await expect(tab.panel).to_be_hidden()
    await expect(tab.bell).to_be_focused()


async def test_hostile_texts_are_texts_and_hostile_links_lead_nowhere(
    site: InboxSite, open_for: OpenTab
) -> None:
    for link in HOSTILE_LINKS:
        await site.put("fatma", HOSTILE, body=HOSTILE, link=link, icon="javascript:document.title=7")
    tab = await open_for("fatma")
    await tab.expect_unread(str(len(HOSTILE_LINKS)))
    await tab.bell.click()
    await expect(tab.titles).to_have_text([HOSTILE] * len(HOSTILE_LINKS))
    await expect(tab.panel.locator("a, img, script")).to_have_count(0)
    for row in await tab.panel.locator(".main").all():
        await row.click()
    await tab.expect_unread("")
    assert await tab.page.title() == "A page"
    assert "/page?" in tab.page.url


@pytest.mark.parametrize(("lang", "direction", "name"), [
    ("fa", "rtl", "اعلان‌ها: ۱ اعلان خوانده‌نشده"),  # noqa: RUF001 - the digits of Persian
    ("ar", "rtl", "الإشعارات: إشعار واحد غير مقروء"),
    ("ru-RU", "ltr", "Уведомления: 1 непрочитанное уведомление"),
    ("constructor", "ltr", "Notifications: 1 unread notification"),
], ids=["fa", "ar", "ru", "unknown"])  # fmt: skip
async def test_a_language_has_its_words_plurals_and_direction(
    site: InboxSite, open_for: OpenTab, lang: str, direction: str, name: str
) -> None:
    user = f"gul-{lang}"
    await site.put(user, "Hello")
    tab = await open_for(user, lang=lang, align="left" if direction == "rtl" else "right")
    await expect(tab.bell).to_have_accessible_name(name)
    await tab.bell.click()
    await expect(tab.panel).to_have_css("direction", direction)
    await expect(tab.titles).to_have_text(["Hello"])
    row = await tab.panel.locator(".row").bounding_box()
    actions = await tab.panel.locator(".actions").bounding_box()
    assert row
    assert actions
    is_at_left = actions["x"] < row["x"] + row["width"] / 2
    assert is_at_left == (direction == "rtl")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("align", ["left", "right"])
async def test_the_panel_stays_within_the_window(
    site: InboxSite, open_for: OpenTab, width: int, align: str
) -> None:
    tab = await open_for("hakan", align=align)
    await site.put("hakan", "a" * 300, body="b" * 300)
    await tab.page.set_viewport_size({"width": width, "height": 600})
    await tab.bell.click()
    await expect(tab.titles.first).to_be_visible()
    box = await tab.panel.bounding_box()
    assert box
    assert 0 <= box["x"] <= box["x"] + box["width"] <= width
    assert box["y"] + box["height"] <= 600
    assert await tab.page.evaluate("document.documentElement.scrollWidth") == width


async def test_a_failure_is_shown_and_can_be_tried_again(open_for: OpenTab) -> None:
    tab = await open_for("ismail")
    await tab.bell.click()
    await expect(tab.panel).to_contain_text("Nothing here yet")
    await tab.page.route("**/v1/inbox?*", lambda route: route.fulfill(status=500, json={"code": "internal"}))
    await tab.panel.get_by_role("tab", name="Archived").click()
    await expect(tab.panel.get_by_role("alert")).to_have_text("The notifications could not be loaded.")
    await tab.page.unroute("**/v1/inbox?*")
    await tab.panel.get_by_role("button", name="Try again").click()
    await expect(tab.panel).to_contain_text("Nothing is archived")
    await expect(tab.panel.get_by_role("alert")).to_be_hidden()
    tab.complaints.clear()

    await tab.page.evaluate("document.querySelector('tocsin-inbox').setAttribute('token', 'not a token')")
    await expect(tab.panel.get_by_role("alert")).to_have_text("Your session has ended. Please sign in again.")
    assert all("401" in complaint for complaint in tab.complaints)
    tab.complaints.clear()


async def test_preferences_are_changed_and_shown_again(open_for: OpenTab) -> None:
    tab = await open_for("jale")
    await tab.bell.click()
    await tab.panel.get_by_role("button", name="Preferences").click()
    group = tab.panel.get_by_role("group", name="Announcements")
    box = group.get_by_role("checkbox", name="Inbox")
    await expect(box).to_be_checked()
    async with tab.page.expect_response("**/v1/preferences") as changed:
        await box.uncheck()
    assert await (await changed.value).json() == {"announcements": {"inbox": False}}
    await tab.panel.get_by_role("button", name="Back").click()
    await expect(tab.panel.get_by_role("button", name="Preferences")).to_be_focused()
    await tab.page.keyboard.press("Enter")
    await expect(box).not_to_be_checked()


async def test_a_browser_is_registered_for_web_push_and_unregistered(
    site: InboxSite, sandbox: Sandbox, context: BrowserContext, open_for: OpenTab
) -> None:
    await context.grant_permissions(["notifications"], origin=site.url)
    subscription = msgspec.json.encode(sandbox.subscription("kerem")).decode()
    await context.add_init_script(f"({SUBSCRIBE})({subscription})")
    tab = await open_for("kerem")
    await tab.bell.click()
    await tab.panel.get_by_role("button", name="Preferences").click()
    group = tab.panel.get_by_role("group", name="Notifications in this browser")
    async with tab.page.expect_response("**/v1/devices/register") as registered:
        await group.get_by_role("button", name="Switch on").click()
    answer = await (await registered.value).json()
    assert (answer["provider"], answer["platform"]) == ("webpush", "web")
    await push(tab.page, site.url, {"title": "Hello", "body": "World", "tag": "1", "data": {}})
    await tab.page.wait_for_function(SHOWN)
    async with tab.page.expect_response("**/v1/devices/unregister") as gone:
        await group.get_by_role("button", name="Switch off").click()
    assert (await gone.value).ok
    await expect(group.get_by_role("button", name="Switch on")).to_be_visible()
