"""The conversation of a run, in a browser: live, folded, safe, and after cuts."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, WebSocketRoute, expect

from tests.server.page.browser.conftest import reader
from tests.server.page.browser.kit import PageServer


def test_a_reply_is_shown_while_it_is_written_and_a_reload_loses_nothing(server: PageServer, page: Page) -> None:
    server.show_run(page, "slow")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("is writing…")
    expect(feed).to_contain_text("A slow reply grows word by word.")
    expect(page.get_by_role("button", name="speaker working")).to_be_visible()
    before = len(feed.inner_text())
    page.wait_for_function(f"() => document.querySelector('[role=feed]').innerText.length > {before + 60}")
    page.reload()
    expect(feed).to_contain_text("That was all.")
    expect(page.get_by_role("button", name="speaker", exact=True)).to_be_visible()
    expect(feed.get_by_text("A slow reply grows").first).to_be_visible()
    expect(page.get_by_text("Completed").first).to_be_visible()


def test_two_browsers_follow_one_run(server: PageServer, page: Page, browser: Browser) -> None:
    run_id = server.show_run(page, "slow")
    context = reader(browser, storage_state=page.context.storage_state())
    second = context.new_page()
    server.open(second, "runs", run_id)
    for one in (page, second):
        expect(one.get_by_role("feed")).to_contain_text("is writing…")
    for one in (page, second):
        expect(one.get_by_role("feed")).to_contain_text("That was all.")
    context.close()


def test_messages_can_be_filtered_by_expert(server: PageServer, page: Page) -> None:
    server.show_run(page, "talk", "Explain boiling water")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("at less on a mountain")
    page.get_by_role("button", name="critic", exact=True).click()
    expect(feed).to_contain_text("at sea level only")
    expect(feed).not_to_contain_text("What is known")
    page.get_by_role("button", name="Everybody").click()
    expect(feed).to_contain_text("What is known")


def test_a_message_shows_the_exact_prompt_of_its_author(server: PageServer, page: Page) -> None:
    server.show_run(page, "talk", "Explain boiling water")
    critic = page.get_by_role("article").filter(has_text="at sea level only").first
    critic.get_by_role("button", name="Exact prompt").click()
    dialog = page.get_by_role("dialog", name="The exact prompt of critic")
    expect(dialog).to_contain_text("Explain boiling water")
    expect(dialog).to_contain_text("Water boils at **100 °C** at sea level.")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_hostile_markdown_and_script_tags_do_nothing(server: PageServer, page: Page) -> None:
    server.show_run(page, "hostile")
    feed = page.get_by_role("feed")
    expect(feed.locator("strong", has_text="bold").first).to_be_visible()
    message = feed.locator(".markdown").filter(has_text="bold").first
    assert message.locator("script, img, iframe, svg, [onerror], [onload], [style]").count() == 0
    links = message.locator("a[href]").evaluate_all("links => links.map(link => [link.href, link.rel, link.target])")
    assert {href.split(":")[0] for href, _, _ in links} == {"https"}
    assert all(rel == "noopener noreferrer nofollow" and target == "_blank" for _, rel, target in links)
    assert page.evaluate("window.hacked") is None


def test_a_message_of_a_megabyte_is_folded_and_can_be_unfolded(server: PageServer, page: Page) -> None:
    server.show_run(page, "huge")
    article = page.get_by_role("article").filter(has_text="All work and no play").first
    expect(article).to_be_visible()
    assert len(article.inner_text()) < 20_000
    article.get_by_role("button", name=re.compile("Show all")).first.click()
    expect(article.get_by_role("button", name="Show less")).to_be_visible()
    assert len(article.inner_text()) > 1_000_000


def test_a_socket_that_is_cut_comes_back_at_its_event(server: PageServer, page: Page) -> None:
    opened: list[WebSocketRoute] = []

    def proxy(socket: WebSocketRoute) -> None:
        opened.append(socket)
        socket.connect_to_server()

    page.route_web_socket(re.compile(r"/api/runs/.*/socket"), proxy)
    server.show_run(page, "slow")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("is writing…")
    opened[0].close(code=1001)
    expect(feed).to_contain_text("That was all.")
    assert feed.get_by_text("The run starts").count() == 1
    first, second = (int(one.url.rpartition("after=")[2]) for one in opened)
    assert second >= max(first, 1)


def test_the_history_of_a_run_comes_in_one_answer_and_one_that_has_ended_needs_no_socket(
    server: PageServer, page: Page
) -> None:
    run_id = server.show_run(page, "talk")
    expect(page.get_by_text("Completed").first).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    held: list[Route] = []
    page.route("**/page-events*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright takes no built-in
    server.open(page)
    page.reload()
    server.open(page, "runs", run_id)
    expect(page.get_by_role("feed")).to_contain_text("Loading…")
    held[0].continue_()
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
    assert len([one for one in asked if "page-events" in one]) == 1
    assert not [one for one in asked if f"{run_id}/socket" in one]


def test_a_run_is_read_while_the_session_is_checked(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "talk")
    expect(page.get_by_text("Completed").first).to_be_visible()
    held: list[Route] = []
    page.route("**/api/session", lambda route: held.append(route))  # noqa: PLW0108 - Playwright takes no built-in
    with page.expect_request("**/page-events*"):
        page.reload()
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
    assert held
    held[0].fulfill(status=401, json={"error": {"code": "unauthorized", "message": "no session"}})
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("feed")).to_have_count(0)
    assert run_id in page.url


def test_the_slider_shows_the_run_as_it_was(server: PageServer, page: Page) -> None:
    server.show_run(page, "talk", "Explain boiling water")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("at less on a mountain")
    slider = page.get_by_role("slider", name="Position in the run")
    slider.focus()
    page.keyboard.press("Home")
    expect(feed).not_to_contain_text("at less on a mountain")
    expect(feed).to_contain_text("The run starts")
    page.get_by_role("button", name="Follow live").click()
    expect(feed).to_contain_text("at less on a mountain")


def test_an_approval_is_given_within_the_conversation(server: PageServer, page: Page) -> None:
    server.show_run(page, "approval")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("feed")).to_contain_text("Answered")
    expect(page.get_by_text("Completed").first).to_be_visible()


def test_a_run_that_another_program_paused_is_answered_and_continued_here(server: PageServer, page: Page) -> None:
    server.run_elsewhere("approval", "elsewhere")
    server.open(page, "runs", "elsewhere", "conversation")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("uses the answer when it continues").first).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_hidden()
    page.get_by_role("feed").get_by_role("button", name="Continue", exact=True).click()
    expect(page.get_by_text("Completed").first).to_be_visible()


def test_a_message_reaches_the_team_from_under_the_conversation(server: PageServer, page: Page) -> None:
    server.show_run(page, "slow")
    expect(page.get_by_role("feed")).to_contain_text("is writing…")
    page.keyboard.press("m")
    field = page.get_by_role("textbox", name="Message")
    expect(field).to_be_focused()
    page.get_by_role("combobox", name="To").select_option("closer")
    field.fill("Be brief.")
    field.press("Shift+Enter")
    page.keyboard.type("Please.")
    field.press("Enter")
    said = page.get_by_role("article").filter(has_text="Be brief.")
    expect(said).to_contain_text("to closer")
    expect(field).to_have_value("")
    expect(said).to_contain_text("Took effect")


def test_a_search_finds_what_is_shown_and_marks_it(server: PageServer, page: Page) -> None:
    server.show_run(page, "talk")
    expect(page.get_by_text("Completed").first).to_be_visible()
    page.get_by_label("Search this run").fill("sea level")
    expect(page.get_by_text("4 found")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(4)
    expect(page.get_by_role("feed")).not_to_contain_text("The run ends")
    marked = "[...CSS.highlights.get('found')].map(one => one.toString()).sort().join()"
    found = ",".join(["level"] * 4 + ["sea"] * 5)  # also in the name of the researcher
    page.wait_for_function(f"() => {marked} === '{found}'")
    page.get_by_label("Search this run").fill("")
    page.wait_for_function("() => CSS.highlights.get('found').size === 0")


def test_a_run_that_has_ended_is_followed_up_in_the_same_conversation(server: PageServer, page: Page) -> None:
    first = server.show_run(page, "talk", "Explain boiling water")
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
    page.get_by_role("textbox", name="Follow up").fill("And on the moon?")
    page.get_by_role("button", name="Follow up").click()
    expect(page.get_by_role("feed")).to_contain_text("And on the moon?")
    expect(page).not_to_have_url(re.compile(first))
    expect(page.get_by_text("Completed").first).to_be_visible()
    critic = page.get_by_role("article").filter(has_text="at sea level only").first
    critic.get_by_role("button", name="Exact prompt").click()
    expect(page.get_by_role("dialog")).to_contain_text("Explain boiling water")


def test_a_follow_up_that_is_refused_is_said_and_kept(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "talk")
    field = page.get_by_role("textbox", name="Follow up")
    field.fill("And then?")
    page.route("**/turns", lambda route: route.abort())
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("can’t be reached")
    expect(field).to_have_value("And then?")
    expect(page).to_have_url(re.compile(run_id))


def test_steering_is_a_panel_beside_the_conversation_with_its_own_address(server: PageServer, page: Page) -> None:
    server.show_run(page, "busy")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("is working…")
    page.keyboard.press("s")
    panel = page.get_by_role("complementary", name="Steer")
    expect(panel.get_by_role("button", name="Pause: closer")).to_be_visible()
    expect(feed).to_be_visible()
    page.reload()
    expect(panel).to_be_visible()
    panel.get_by_role("button", name="Close Steer").click()
    expect(panel).to_be_hidden()
    expect(page.get_by_role("button", name="Steer", exact=True)).to_have_attribute("aria-expanded", "false")


def test_what_waits_for_a_person_is_one_step_away(server: PageServer, page: Page) -> None:
    server.show_run(page, "approval")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("[role=article]:focus")).to_contain_text("Waits for a person")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("1 question waits for you")).to_be_hidden()


def test_the_keyboard_moves_through_messages_and_views(server: PageServer, page: Page) -> None:
    server.show_run(page, "talk")
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
    page.keyboard.press("j")
    focused = "() => Number(document.activeElement.getAttribute('aria-posinset'))"
    page.wait_for_function(focused)
    first = int(page.evaluate(focused))
    page.keyboard.press("j")
    page.wait_for_function(f"() => ({focused})() === {first + 1}")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Next message")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


def test_a_run_that_does_not_exist_is_said_so(server: PageServer, page: Page) -> None:
    server.open(page, "runs", "no-such-run")
    expect(page.get_by_role("heading", name="There is nothing here.")).to_be_visible()


def test_a_server_that_was_killed_and_started_again_goes_on_with_the_run(
    own_server: PageServer, own_page: Page
) -> None:
    own_server.sign_in(own_page)
    run_id = own_server.show_run(own_page, "slow")
    feed = own_page.get_by_role("feed")
    expect(feed).to_contain_text("is writing…")
    own_server.kill()
    expect(own_page.get_by_text("Connection lost")).to_be_visible()
    own_server.start()
    own_server.sign_in(own_page)
    own_server.open(own_page, "runs", run_id)
    expect(feed).to_contain_text("That was all.", timeout=40_000)


def test_a_run_says_what_it_is_and_can_be_taken_away(server: PageServer, page: Page, tmp_path: Path) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    run_id = server.show_run(page, "talk", "Explain boiling water")
    expect(page.get_by_text("Completed").first).to_be_visible()
    expect(page.locator(".head")).to_contain_text("Explain boiling water")
    page.get_by_role("button", name="Copy the id").click()
    assert page.evaluate("navigator.clipboard.readText()") == run_id
    page.get_by_role("button", name="Copy the link to this view").click()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    with page.expect_download() as started:
        page.get_by_role("button", name="Export").click()
    assert started.value.suggested_filename == f"{run_id}.html"
    started.value.save_as(tmp_path / "run.html")
    page.goto((tmp_path / "run.html").as_uri())
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")


def test_a_run_names_the_run_that_it_continues_and_the_other_turns(server: PageServer, page: Page) -> None:
    first = server.show_run(page, "talk", "Explain boiling water")
    page.get_by_role("textbox", name="Follow up").fill("And on the moon?")
    page.get_by_role("button", name="Follow up").click()
    origin = page.get_by_role("list", name="Belongs to")
    origin.get_by_role("link", name=first).click()
    expect(page).to_have_url(re.compile(first))
    origin.get_by_role("link", name="And on the moon?").click()
    expect(page.get_by_role("feed")).to_contain_text("And on the moon?")


def test_the_files_of_a_run_are_previewed_and_downloaded(
    own_server: PageServer, own_page: Page, tmp_path: Path
) -> None:
    team = tmp_path / "teams" / "talk"
    (team / "notes.md").write_text("# Notes\n\nWater is **wet**.", encoding="utf-8")
    manifest = (team / "team.yaml").read_text(encoding="utf-8")
    (team / "team.yaml").write_text(manifest.replace("limits:", "attachments: [notes.md], limits:"), encoding="utf-8")
    own_server.sign_in(own_page)
    run_id = own_server.show_run(own_page, "talk")
    own_page.get_by_role("button", name="Files").click()
    files = own_page.get_by_role("dialog", name="Files")
    files.get_by_role("button", name="Preview: notes.md").click()
    expect(files.locator("strong", has_text="wet")).to_be_visible()
    with own_page.expect_download() as started:
        files.get_by_role("button", name="Download: notes.md").click()
    assert started.value.path().read_text(encoding="utf-8").startswith("# Notes")
    own_page.keyboard.press("Escape")
    own_server.show_run(own_page, "hostile")
    own_page.get_by_role("button", name="Files").click()
    expect(files).to_contain_text("No files")
    own_page.route("**/artifacts", lambda route: route.abort())
    own_server.open(own_page, "runs", run_id, "plan")
    own_page.get_by_role("button", name="Files").click()
    expect(files.get_by_role("alert")).to_contain_text("can’t be reached")


def test_a_run_is_searched_and_a_link_leads_to_what_was_found(server: PageServer, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    server.show_run(page, "talk", "Explain boiling water")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("at less on a mountain")
    page.keyboard.press("/")
    page.keyboard.type("sea level only")
    expect(feed.get_by_role("article")).to_have_count(1)
    expect(page.get_by_text("1 found")).to_be_visible()
    page.reload()
    expect(feed.get_by_role("article")).to_have_count(1)
    found = feed.get_by_role("article").first
    found.get_by_role("button", name="Copy the text").click()
    assert page.evaluate("navigator.clipboard.readText()") == "That holds at sea level only."
    found.get_by_role("button", name="Copy the link to this message").click()
    link = page.evaluate("navigator.clipboard.readText()")
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("[role=article]:focus")).to_contain_text("sea level only")
    page.get_by_role("searchbox", name="Search this run").fill("no such words")
    expect(page.get_by_role("heading", name="No message fits")).to_be_visible()


def test_a_link_leads_to_an_event_of_the_past(server: PageServer, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    server.show_run(page, "talk", "Explain boiling water")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("at less on a mountain")
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="Copy the link to this view").click()
    link = page.evaluate("navigator.clipboard.readText()")
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("button", name="Follow live")).to_be_visible()
    expect(feed).not_to_contain_text("at less on a mountain")


def test_what_is_no_work_is_folded_until_it_is_asked_for(server: PageServer, page: Page) -> None:
    server.show_run(page, "talk", "Explain boiling water")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("at less on a mountain")
    expect(feed).not_to_contain_text("talk is done")
    feed.get_by_role("button", name=re.compile("more: coordination")).last.click()
    expect(feed).to_contain_text("talk is done")
    page.get_by_role("checkbox", name="Show all details").check()
    expect(feed.get_by_role("button", name=re.compile("more: coordination"))).to_have_count(0)
    expect(feed).to_contain_text("talk begins: researcher, critic, writer")
