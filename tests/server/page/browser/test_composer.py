"""What the reader writes under a conversation: it is kept, and says what it does before it is sent."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.server.page.browser.kit import PageServer


def test_what_is_written_is_kept_while_another_view_is_shown(server: PageServer, page: Page) -> None:
    server.show_run(page, "talk")
    page.get_by_role("textbox", name="Follow up").fill("And on the moon?")
    page.get_by_role("link", name="Plan", exact=True).click()
    expect(page.get_by_role("feed")).to_be_hidden()
    page.get_by_role("link", name="Conversation", exact=True).click()
    expect(page.get_by_role("textbox", name="Follow up")).to_have_value("And on the moon?")


def test_an_answer_is_kept_while_another_view_is_shown(server: PageServer, page: Page) -> None:
    server.show_run(page, "approval")
    page.get_by_role("button", name="Reject").click()
    page.get_by_label("Why it is rejected").fill("Too early.")
    page.get_by_role("link", name="Plan", exact=True).click()
    expect(page.get_by_role("feed")).to_be_hidden()
    page.get_by_role("link", name="Conversation", exact=True).click()
    expect(page.get_by_label("Why it is rejected")).to_have_value("Too early.")


def test_a_message_that_the_end_of_the_run_overtakes_is_no_follow_up_unseen(server: PageServer, page: Page) -> None:
    server.show_run(page, "slow")
    page.get_by_role("combobox", name="To").select_option("closer")
    page.get_by_role("textbox", name="Message").fill("Be brief.")
    before = len(server.runs())
    note = page.get_by_text("The run ended while you wrote.")
    expect(note).to_be_visible()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_hidden()
    page.get_by_role("textbox", name="Follow up").press("Enter")
    follow = page.get_by_role("button", name="Follow up")
    expect(follow).to_be_focused()
    assert len(server.runs()) == before
    follow.press("Enter")
    expect(page.get_by_role("list", name="Belongs to")).to_contain_text("Continues")
    assert len(server.runs()) == before + 1
    expect(note).to_be_hidden()


def test_a_follow_up_says_which_turn_it_continues(server: PageServer, page: Page) -> None:
    first = server.show_run(page, "talk", "Explain boiling water")
    field, origin = page.get_by_role("textbox", name="Follow up"), page.get_by_role("list", name="Belongs to")
    field.fill("And on the moon?")
    expect(page.get_by_text("The conversation has gone on.")).to_be_hidden()
    page.get_by_role("button", name="Follow up").click()
    origin.get_by_role("link", name=first).click()
    note = page.get_by_text("The conversation has gone on.")
    expect(note.get_by_role("link", name="And on the moon?")).to_be_visible()
    field.fill("And on Mars?")
    page.get_by_role("button", name="Follow up").click()
    expect(page.get_by_role("feed")).to_contain_text("And on Mars?")
    expect(origin).to_contain_text("Continues")
    expect(origin.get_by_role("link", name=re.compile(first))).to_be_hidden()
    expect(origin).not_to_contain_text("Other turns")


def test_the_heading_says_how_long_a_run_took_however_short(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "talk")
    expect(page.get_by_text("Completed").first).to_be_visible()

    def hurry(route: Route) -> None:
        response = route.fetch()
        events = response.json()
        ended = next(one for one in events if one["kind"] == "run" and one["state"] == "ended")
        route.fulfill(response=response, json=[one | ({"seconds": 0.012} if one is ended else {}) for one in events])

    page.route(f"**/{run_id}/page-events*", hurry)
    page.reload()
    expect(page.get_by_title("Duration")).to_have_text("12 ms")


def test_a_draft_that_was_emptied_is_not_approved(server: PageServer, page: Page) -> None:
    server.show_run(page, "approval")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Approve this instead").fill(" ")
    approve = page.get_by_role("button", name="Approve with changes")
    expect(approve).to_have_attribute("aria-disabled", "true")
    expect(approve).to_have_attribute("title", re.compile("The text is empty"))
    page.get_by_label("Approve this instead").fill("It starts on Tuesday.")
    approve.click()
    expect(page.get_by_role("feed")).to_contain_text("It starts on Tuesday.")
    expect(page.get_by_text("Completed").first).to_be_visible()


def test_that_a_message_was_accepted_is_said_until_the_run_ends(server: PageServer, page: Page) -> None:
    server.show_run(page, "slow")
    page.get_by_role("textbox", name="Message").fill("Be brief.")
    page.get_by_role("button", name="Send", exact=True).click()
    accepted = page.get_by_role("status").get_by_text("Accepted", exact=True)
    expect(accepted).to_be_visible()
    expect(page.get_by_role("textbox", name="Follow up")).to_be_visible()
    expect(accepted).to_be_hidden()


def test_a_server_that_is_back_is_no_longer_said_to_be_away(own_server: PageServer, own_page: Page) -> None:
    own_server.sign_in(own_page)
    own_server.show_run(own_page, "talk")
    own_page.get_by_role("textbox", name="Follow up").fill("And on the moon?")
    own_server.kill()
    own_page.get_by_role("button", name="Follow up").click()
    expect(own_page.get_by_role("alert")).to_contain_text("can’t be reached")
    own_server.start()
    expect(own_page.get_by_role("status").filter(has_text="can be reached again")).to_be_visible()
    expect(own_page.get_by_role("alert")).to_be_hidden()
    own_page.get_by_role("button", name="Follow up").click()
    expect(own_page.get_by_role("feed")).to_contain_text("And on the moon?")
