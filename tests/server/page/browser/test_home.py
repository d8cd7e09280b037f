"""Home, inbox and sessions, in a browser."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from tests.server.page.browser.kit import PageServer, violations


def test_the_printed_address_works_once_and_leaves_no_code_behind(
    own_server: PageServer, own_page: Page, browser: Browser
) -> None:
    own_server.sign_in(own_page)
    assert "code=" not in own_page.url
    expect(own_page.get_by_role("heading", name="No runs yet")).to_be_visible()
    own_page.reload()
    expect(own_page.get_by_role("heading", name="No runs yet")).to_be_visible()
    other = browser.new_page()
    other.goto(own_server.address)
    expect(other.get_by_role("heading", name="Please sign in")).to_be_visible()
    expect(other.get_by_text("has been used")).to_be_visible()
    other.close()


def test_runs_appear_as_they_happen_and_can_be_searched_and_filtered(server: PageServer, page: Page) -> None:
    server.open(page)
    server.start_run(page, "talk", "Explain boiling water")
    server.start_run(page, "hostile", "Attack the page")
    boiling = page.get_by_role("link", name="Explain boiling water")
    expect(boiling).to_contain_text("Completed")
    page.keyboard.press("/")
    page.keyboard.type("attack")
    expect(boiling).to_be_hidden()
    expect(page.get_by_role("link", name="Attack the page")).to_be_visible()
    page.get_by_label("Search runs").fill("")
    page.get_by_label("Team").select_option("talk")
    expect(boiling).to_be_visible()
    page.get_by_label("Status").select_option("failed")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(boiling).to_be_visible()


def test_the_inbox_approves_edits_and_rejects_in_place(server: PageServer, page: Page) -> None:
    server.open(page)
    runs = {what: server.start_run(page, "approval", f"{what} it") for what in ("Approve", "Edit", "Reject")}
    expect(page.get_by_role("link", name="3 waiting for you").first).to_be_visible(timeout=15_000)
    page.get_by_role("link", name="3 waiting for you").first.click()
    cards = page.get_by_role("article", name="Approval: approval")
    expect(cards).to_have_count(3)
    assert violations(page) == []
    for what, run_id in runs.items():
        card = cards.filter(has=page.locator(f'a[href*="{run_id}"]'))
        card.get_by_role("button", name=what, exact=True).click()
        if what == "Edit":
            card.get_by_label("Approve this instead").fill("It starts on Tuesday.")
            card.get_by_role("button", name="Approve with changes").click()
        if what == "Reject":
            card.get_by_label("Why it is rejected").fill("Too early")
            card.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible(timeout=15_000)
    server.open(page, "runs", runs["Edit"])
    expect(page.get_by_role("feed")).to_contain_text("It starts on Tuesday.")
    expect(page.get_by_role("feed")).to_contain_text("by owner")


def test_notices_of_the_inbox_are_shown_where_the_reader_allowed_them(server: PageServer, page: Page) -> None:
    page.context.grant_permissions(["notifications"], origin=server.url)
    page.add_init_script(
        "window.notices = [];"
        "window.Notification = class { constructor(title) { notices.push(title) }"
        " static permission = 'granted'; static async requestPermission() { return 'granted' } }"
    )
    server.open(page, "inbox")
    page.get_by_role("button", name="Notify me of new entries").click()
    expect(page.get_by_text("This browser notifies you")).to_be_visible()
    server.start_run(page, "approval")
    page.wait_for_function("() => notices.length === 1")
    assert page.evaluate("notices") == ["approval waits for you"]


def test_somebody_whose_session_has_ended_is_asked_to_sign_in(server: PageServer, page: Page) -> None:
    server.open(page)
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    server.sign_out(page)
    expect(page.get_by_role("heading", name="Please sign in")).to_be_visible(timeout=15_000)


def test_a_token_signs_in_with_its_role_until_it_is_revoked(server: PageServer, page: Page) -> None:
    run_id = server.start_run(page, "busy")
    server.open(page)
    server.sign_out(page)
    page.reload()
    field, button = page.get_by_label("Token"), page.get_by_role("button", name="Sign in")
    field.fill("tw_wrong")
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("not known here")
    token = server.tokens.create("ann", "read")
    field.fill(token)
    field.press("Enter")
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    expect(page.get_by_role("banner")).to_contain_text("Signed in as ann, role read")
    new_run = page.get_by_role("button", name="New run")
    expect(new_run).to_have_attribute("aria-disabled", "true")
    expect(new_run).to_contain_text("with the role “read”; this needs “run”")
    assert token not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    server.open(page, "runs", run_id, "steer")
    expect(page.get_by_text("You may read this run, but not steer it.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    server.tokens.delete("ann")
    expect(page.get_by_role("heading", name="Please sign in")).to_be_visible(timeout=15_000)


def test_no_request_leaves_the_host(server: PageServer, page: Page) -> None:
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    server.open(page)
    server.show_run(page, "hostile")
    expect(page.get_by_role("feed")).to_contain_text("bold")
    assert seen
    assert all(url.startswith(server.url) for url in seen), seen
