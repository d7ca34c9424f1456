import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.visits import Visit
from tests.providers.conformance import NOW, a_message
from tests.providers.sandboxes import calling
from tocsin.domain.delivery.outcome import Sent
from tocsin.providers.fcm.provider import FcmProvider
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.providers.smtp.provider import SmtpProvider
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.sandbox import Sandbox
from tocsin.sandbox.phones import Push

HTML = """<!doctype html>
<body style="background: rgb(1, 2, 3)">
  <p id="words">Hello</p>
  <script>document.getElementById("words").textContent = "a script ran"</script>
  <img src="{elsewhere}/open.gif" onerror="document.body.textContent = 'a handler ran'">
  <a href="{elsewhere}/plain">Leave</a>
  <a href="{elsewhere}/self" target="_self">Leave here</a>
</body>
"""


@contextlib.asynccontextmanager
async def another_host() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Give the address of a server that keeps what it is asked for."""
    asked: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(keep, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}", asked


def device(page: Page, target: str) -> Locator:
    return page.get_by_role("article").filter(has=page.get_by_role("heading", name=target, exact=True))


def provider(page: Page, name: str) -> Locator:
    return (
        page.get_by_role("complementary")
        .get_by_role("listitem")
        .filter(has=page.get_by_role("heading", name=name, exact=True))
    )


async def send(sandbox: Sandbox, token: str, title: str = "Hello", body: str = "World") -> int:
    async with calling(sandbox) as caller:
        reply = await caller.send({"token": token, "notification": {"title": title, "body": body}})
    return reply.status


async def post(sandbox: Sandbox, subject: str, html: str) -> None:
    smtp = SmtpProvider(
        SmtpSettings(
            host="127.0.0.1",
            port=sandbox.smtp_port,
            ca_file=sandbox.ca_file,
            sender="Acme <notify@acme.example>",
        )
    )
    try:
        [outcome] = await smtp.send([a_message("ada@example.org", title=subject, html=html)], now=NOW)
    finally:
        await smtp.aclose()
    assert isinstance(outcome, Sent)


async def test_a_push_of_a_provider_appears_on_its_phone_without_a_reload(
    sandbox: Sandbox, page: Page, tmp_path: Path
) -> None:
    await expect(page.get_by_role("heading", name="Nothing has arrived yet")).to_be_visible()
    account = sandbox.write_service_account(tmp_path / "account.json")
    fcm = FcmProvider(
        FcmSettings(credentials_file=account, base_url=sandbox.https_url, ca_file=sandbox.ca_file)
    )
    try:
        [outcome] = await fcm.send([a_message("adas-phone", title="New customer", body="Ali Veli")], now=NOW)
    finally:
        await fcm.aclose()
    assert isinstance(outcome, Sent)

    phone = device(page, "adas-phone")
    await expect(phone.get_by_role("button", name="New customer Ali Veli")).to_be_visible()
    await expect(page.get_by_role("heading", name="Nothing has arrived yet")).to_be_hidden()
    await expect(provider(page, "FCM")).to_contain_text("1 request · 1 arrived")


async def test_the_newest_is_in_front_on_its_device_and_among_devices(sandbox: Sandbox, page: Page) -> None:
    for token, title in (("a", "first"), ("b", "second"), ("a", "third")):
        assert await send(sandbox, token, title) == 200

    await expect(device(page, "a").locator(".notice_title")).to_have_text(["third", "first"])
    await expect(page.get_by_role("article").get_by_role("heading")).to_have_text(["a", "b"])


async def test_persian_is_written_from_right_to_left(sandbox: Sandbox, page: Page) -> None:
    await send(sandbox, "saras-phone", "مشتری جدید", "گریس هاپر ثبت‌نام کرد.")
    await send(sandbox, "adas-phone", "New customer", "Grace Hopper")

    for token, direction in (("saras-phone", "rtl"), ("adas-phone", "ltr")):
        for part in (".notice_title", ".notice_body"):
            await expect(device(page, token).locator(part)).to_have_css("direction", direction)


async def test_a_mail_is_shown_with_its_styles_and_can_run_and_fetch_nothing(
    sandbox: Sandbox, visit: Visit
) -> None:
    page = visit.page
    async with another_host() as (elsewhere, asked):
        await post(sandbox, "Your summary", HTML.format(elsewhere=elsewhere))
        await device(page, "ada@example.org").get_by_role("button", name="Your summary").click()
        dialog = page.get_by_role("dialog", name="Your summary")
        mail = dialog.frame_locator("iframe")
        await expect(mail.locator("body")).to_have_css("background-color", "rgb(1, 2, 3)")
        await expect(mail.locator("#words")).to_have_text("Hello")
        # Until the browser has given up the image, it may move a link away from under the pointer.
        await expect(mail.locator("img")).to_have_js_property("complete", value=True)
        await mail.get_by_role("link", name="Leave", exact=True).click()
        await visit.complained("allow-popups")
        await expect(mail.locator("#words")).to_have_text("Hello")
        await mail.get_by_role("link", name="Leave here").click()
        await visit.complained("frame-src")
    assert asked == []
    assert len(page.context.pages) == 1
    await visit.complained("Blocked script execution")


async def test_an_outage_is_begun_and_lifted_by_its_button(sandbox: Sandbox, page: Page) -> None:
    row = provider(page, "FCM")

    await row.get_by_role("button", name="Begin outage of FCM").click()
    await expect(row).to_contain_text("Messages are refused")
    assert await send(sandbox, "adas-phone") == 503
    assert sandbox.faults_of("apns").outage_of("messages") is None

    await row.get_by_role("button", name="End outage of FCM").click()
    await expect(row.get_by_role("button", name="Begin outage of FCM")).to_be_visible()
    assert await send(sandbox, "adas-phone") == 200
    await expect(row).to_contain_text("UNAVAILABLE 1")


async def test_a_reset_is_asked_for_twice_and_empties_the_page(sandbox: Sandbox, page: Page) -> None:
    await send(sandbox, "adas-phone")
    await expect(device(page, "adas-phone")).to_be_visible()

    await page.get_by_role("button", name="Reset…").click()
    await page.get_by_role("button", name="Keep everything").click()
    assert sandbox.phones.count == 1
    await page.get_by_role("button", name="Reset…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Reset").click()

    await expect(page.get_by_role("heading", name="Nothing has arrived yet")).to_be_visible()
    await expect(page.get_by_role("article")).to_have_count(0)
    await send(sandbox, "adas-phone", "After the reset")
    await expect(device(page, "adas-phone")).to_contain_text("After the reset")


async def test_devices_are_found_by_provider_and_by_target(sandbox: Sandbox, page: Page) -> None:
    await send(sandbox, "adas-phone")
    await send(sandbox, "saras-phone")
    await post(sandbox, "Your summary", "<p>Hello</p>")
    shown = page.get_by_role("article").get_by_role("heading")
    await expect(shown).to_have_text(["ada@example.org", "saras-phone", "adas-phone"])

    await page.get_by_role("radio", name="FCM").check(force=True)
    await expect(shown).to_have_text(["saras-phone", "adas-phone"])
    await page.get_by_role("searchbox").fill("ADA")
    await expect(shown).to_have_text(["adas-phone"])
    await page.get_by_role("searchbox").fill("nobody")
    await page.get_by_role("button", name="Show all").click()
    await expect(shown).to_have_count(3)


async def test_a_message_opens_by_keyboard_with_its_raw_json(sandbox: Sandbox, page: Page) -> None:
    await send(sandbox, "adas-phone", "New customer")
    notice = device(page, "adas-phone").get_by_role("button")
    await notice.focus()
    await page.keyboard.press("Enter")

    dialog = page.get_by_role("dialog", name="New customer")
    await expect(dialog.locator("code")).to_contain_text('"token": "adas-phone"')
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(notice).to_be_focused()


async def test_the_page_holds_no_more_than_the_last_500_messages(sandbox: Sandbox, page: Page) -> None:
    for number in range(1, 521):
        message = {"notification": {"title": f"Number {number}"}}
        sandbox.phones.receive("fcm", Push(target=f"phone-{number}", message_id=str(number), message=message))
    await expect(page.get_by_role("article")).to_have_count(500)
    await send(sandbox, "phone-520", "One more")

    await expect(device(page, "phone-520")).to_contain_text("One more")
    await expect(page.get_by_role("article")).to_have_count(499)
    await expect(page.get_by_text("499 devices · 521 messages, the last 500 shown")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
async def test_nothing_is_wider_than_the_window(sandbox: Sandbox, page: Page, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 844})
    await send(sandbox, "a" * 300, "b" * 300, "c" * 300)
    await expect(page.get_by_role("article")).to_be_visible()

    assert await page.evaluate("document.documentElement.scrollWidth") == width
