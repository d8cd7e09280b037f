"""How the page looks and reads: themes, languages, phones, screen readers, and the pictures of the documentation."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.server.page.browser.conftest import reader, watched
from tests.server.page.browser.kit import PageServer, violations

PHONE = {"width": 390, "height": 800}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nobody_is_kept_out_of_any_page(
    server: PageServer, browser: Browser, session: StorageState, theme: Any
) -> None:
    context = reader(browser, storage_state=session, color_scheme=theme)
    with watched(context.new_page()) as page:
        server.open(page)
        server.start_run(page, "approval")
        talk = server.start_run(page, "talk")
        expect(page.get_by_role("link", name="Do your work.").first).to_contain_text("tokens")
        assert violations(page, theme) == []
        server.open(page, "new")
        page.get_by_label("What should be done?").fill("@talk about water")
        expect(page.get_by_role("region", name="Forecast")).to_contain_text("Never more")
        assert violations(page, theme) == []
        server.open(page, "inbox")
        page.get_by_role("button", name="Approve", exact=True).first.wait_for()
        assert violations(page, theme) == []
        server.open(page, "runs", talk, "conversation")
        expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
        assert violations(page, theme) == []
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        assert violations(page, theme) == []
        page.keyboard.press("Escape")
        for tab in page.get_by_role("navigation", name="Views of this run").get_by_role("link").all():
            tab.click()
            page.wait_for_timeout(500)
            assert violations(page, theme) == [], tab.inner_text()
    context.close()


def test_the_theme_follows_the_system_until_it_is_chosen(server: PageServer, page: Page) -> None:
    server.open(page)
    root = page.locator("html")
    page.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Theme: Follow the system").click()
    expect(root).to_have_attribute("data-theme", "light")
    page.reload()
    expect(root).to_have_attribute("data-theme", "light")


def test_the_page_speaks_chinese_where_the_reader_does(
    server: PageServer, browser: Browser, session: StorageState
) -> None:
    context = reader(browser, storage_state=session, locale="zh-CN")
    page = context.new_page()
    server.open(page)
    expect(page.get_by_role("heading", name="运行", exact=True)).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.get_by_role("button", name="语言").click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    context.close()


def test_nothing_is_wider_than_a_phone(server: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    run_id = server.start_run(page, "hostile", "Attack " + "a_very_long_word_" * 12)
    for place in ("", "inbox", "new", f"runs/{run_id}"):
        server.open(page, place)
        page.get_by_role("main").wait_for()
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], place
        assert page.evaluate("document.getElementById('content').scrollWidth") <= PHONE["width"], place
    feed = page.get_by_role("feed").bounding_box()
    assert feed is not None
    assert feed["height"] > PHONE["height"] / 2  # the conversation has the most of it


def test_times_are_those_of_the_readers_zone(server: PageServer, browser: Browser, session: StorageState) -> None:
    shown: list[str] = []
    run_id = ""
    for zone in ("Asia/Tokyo", "America/New_York"):
        context = reader(browser, storage_state=session, timezone_id=zone)
        page = context.new_page()
        if not run_id:
            server.open(page)
            run_id = server.start_run(page, "talk")
        server.open(page, "runs", run_id)
        expect(page.get_by_role("feed")).to_contain_text("The run starts")
        shown.append(page.get_by_role("article").first.locator("time").first.inner_text())
        context.close()
    assert shown[0] != shown[1]
