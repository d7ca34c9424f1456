"""The component in two tabs of one person, who see the same at any time."""

from playwright.async_api import expect

from tests.browser.inbox.conftest import OpenTab
from tests.browser.inbox.sites import InboxSite, token

ASK = "() => { document.querySelector('tocsin-inbox').getToken = () => window.fresh(); }"


async def test_what_is_sent_shows_in_both_tabs_and_what_one_reads_is_read_in_the_other(
    site: InboxSite, open_for: OpenTab
) -> None:
    one, other = await open_for("ada"), await open_for("ada")
    await one.expect_unread("")
    await site.send("ada", title="A new report", link="/page?of=a-report")
    await site.send("ada", title="A second one")
    for tab in (one, other):
        await tab.page.bring_to_front()
        await tab.expect_unread("2")
        await expect(tab.bell).to_have_accessible_name("Notifications: 2 unread notifications")
        await tab.bell.click()
        await expect(tab.titles).to_have_text(["A second one", "A new report"])

    await one.page.bring_to_front()
    await one.row("A second one").get_by_role("button", name="Mark as read").click()
    await other.expect_unread("1")
    await other.page.bring_to_front()
    await other.panel.get_by_role("tab", name="Unread").click()
    await expect(other.titles).to_have_text(["A new report"])

    await one.page.bring_to_front()
    await one.row("A second one").get_by_role("button", name="Archive").click()
    await expect(one.titles).to_have_text(["A new report"])
    await other.page.bring_to_front()
    await other.panel.get_by_role("tab", name="Archived").click()
    await expect(other.titles).to_have_text(["A second one"])

    await one.page.bring_to_front()
    await one.panel.get_by_role("button", name="Mark all as read").click()
    for tab in (one, other):
        await tab.expect_unread("")
    await one.panel.get_by_role("link", name="A new report").click()
    await one.page.wait_for_url("**/page?of=a-report")


async def test_a_click_reads_an_item_and_follows_its_link(site: InboxSite, open_for: OpenTab) -> None:
    tab, other = await open_for("basri"), await open_for("basri")
    await site.put("basri", "A new report", link="/page?of=a-report")
    await tab.expect_unread("1")
    await tab.bell.click()
    await tab.panel.get_by_role("link", name="A new report").click()

    await tab.page.wait_for_url("**/page?of=a-report")
    await other.expect_unread("")


async def test_older_items_come_while_one_scrolls(site: InboxSite, open_for: OpenTab) -> None:
    for number in range(45):
        await site.put("celal", f"Item {number}")
    tab = await open_for("celal")
    await tab.bell.click()
    await expect(tab.titles).to_have_count(20)
    for shown in (40, 45):
        await tab.panel.locator(".row").last.scroll_into_view_if_needed()
        await expect(tab.titles).to_have_count(shown)
    await expect(tab.panel.get_by_role("button", name="Show older")).to_be_hidden()
    assert await tab.titles.all_inner_texts() == [f"Item {number}" for number in reversed(range(45))]
    for number in range(45, 100):
        await site.put("celal", f"Item {number}")
    await tab.expect_unread("99+")


async def test_a_token_that_expires_is_renewed_and_the_stream_misses_nothing(
    site: InboxSite, open_for: OpenTab
) -> None:
    tab = await open_for("derya", token="")
    asked: list[str] = []

    def fresh() -> str:
        asked.append(token("derya", 600 + len(asked)))
        return asked[-1]

    await tab.page.expose_function("fresh", fresh)
    await tab.page.evaluate(ASK)
    await tab.bell.click()
    await expect(tab.panel).to_contain_text("Nothing here yet")
    for number in (1, 2):
        await site.put("derya", "While it is live")
        await expect(tab.titles).to_have_count(number)
    assert len(asked) == 1

    # The first attempts to connect again fail, and what comes meanwhile is caught up on.
    await tab.page.route("**/v1/inbox/stream", lambda route: route.abort())
    async with tab.page.expect_request("**/v1/inbox/stream") as again:
        site.expire("derya")
    assert "last-event-id" in (await again.value).headers
    await site.put("derya", "While it was away")
    await expect(tab.titles).to_have_count(2)
    await tab.page.unroute("**/v1/inbox/stream")
    await expect(tab.titles.first).to_have_text("While it was away")
    assert len(asked) == 2
    assert {*tab.complaints} == {"Failed to load resource: net::ERR_FAILED"}
    tab.complaints.clear()
