"""How the page looks and reads: themes, languages, phones, screen readers, and the pictures of the documentation."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, StorageState, expect

from tests.server.page.browser.conftest import reader, watched
from tests.server.page.browser.kit import PageServer, violations, violations_in_both_themes, write_teams

PHONE = {"width": 390, "height": 800}


def test_nobody_is_kept_out_of_any_page(server: PageServer, browser: Browser, session: StorageState) -> None:
    context = reader(browser, storage_state=session, reduced_motion="reduce")
    with watched(context.new_page()) as page:
        server.open(page)
        server.start_run(page, "approval")
        talk = server.start_run(page, "talk")
        expect(page.get_by_role("link", name="Do your work.").first).to_contain_text("tokens")
        assert violations_in_both_themes(page) == []
        server.open(page, "new")
        page.get_by_label("What should be done?").fill("@talk about water")
        expect(page.get_by_role("region", name="Forecast")).to_contain_text("Never more")
        assert violations_in_both_themes(page) == []
        server.open(page, "inbox")
        page.get_by_role("button", name="Approve", exact=True).first.wait_for()
        assert violations_in_both_themes(page) == []
        server.open(page, "runs", talk, "conversation")
        expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
        assert violations_in_both_themes(page) == []
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        assert violations_in_both_themes(page) == []
        page.keyboard.press("Escape")
        for tab in page.get_by_role("navigation", name="Views of this run").get_by_role("link").all():
            tab.click()
            page.wait_for_timeout(500)
            assert violations_in_both_themes(page) == [], tab.inner_text()
    context.close()


def test_what_keeps_a_reader_out_is_found(server: PageServer, page: Page) -> None:
    server.open(page)
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    page.evaluate("document.getElementById('content').append(document.createElement('button'))")
    assert [one.partition(":")[0] for one in violations(page)] == ["button-name"]


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


def test_a_phone_shows_every_link_and_keeps_the_tools_one_press_away(server: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    server.start_run(page, "approval")
    server.show_run(page, "talk")
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    expect(links).to_have_count(4)
    expect(links.nth(1)).to_contain_text("waiting")
    for link in links.all():
        expect(link).to_be_in_viewport(ratio=1)
    more = page.get_by_role("banner").get_by_role("button", name="More")
    boxes = [one.bounding_box() for one in (links.first, more)]
    assert boxes[0]
    assert boxes[1]
    assert abs(boxes[0]["y"] - boxes[1]["y"]) < 20  # in one row
    language = page.get_by_role("button", name="Language")
    expect(language).to_be_hidden()
    more.click()
    language.click()
    expect(page.get_by_role("link", name="新建运行")).to_be_in_viewport(ratio=1)


def test_a_wide_table_is_scrolled_with_its_words_whole(tmp_path: Path, own_page: Page) -> None:
    cells = ("|", *(f" measurement{number} |" for number in range(14)), "\n")
    table = "".join((*cells, "|", "---|" * 14, "\n", *cells))
    manifest = "agents: {clerk: {model: scripted:replies.yaml}}\nteams: {wide: {members: [clerk]}}\n"
    teams = write_teams(tmp_path / "teams", {"wide": manifest}, {"wide": [{"reply": f"7. Seventh\n\n{table}"}]})
    with PageServer(teams, tmp_path / "home") as server:
        server.sign_in(own_page)
        server.show_run(own_page, "wide")
        frame = own_page.get_by_role("feed").get_by_role("group", name="Table").first
        heights: list[float] = []
        for width in (1280, PHONE["width"]):
            own_page.set_viewport_size({"width": width, "height": 800})
            expect(frame).to_be_visible()
            assert frame.evaluate("one => one.scrollWidth > one.clientWidth"), width
            heights.append(frame.get_by_role("cell").first.evaluate("one => one.clientHeight"))
            assert violations(own_page) == [], width
        assert max(heights) < 50, heights  # a line, not one letter below the other
        frame.focus()
        own_page.keyboard.press("ArrowRight")
        own_page.wait_for_function("one => one.scrollLeft > 0", arg=frame.element_handle())
        assert own_page.get_by_role("feed").locator("ol[start='7']").count() > 0


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
