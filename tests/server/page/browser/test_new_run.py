"""The start of a run, in a browser: who does it, with what, and what it may cost, before it begins."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.server.page.browser.kit import PageServer, violations


def start(page: Page) -> None:
    """Start as soon as the forecast is there."""
    button = page.get_by_role("button", name="Start", exact=False)
    expect(button).not_to_have_attribute("aria-disabled", "true")
    button.click()


def test_a_run_is_started_with_a_line_after_its_forecast_and_ceiling_were_shown(server: PageServer, page: Page) -> None:
    server.open(page)
    page.get_by_role("button", name="New run").first.wait_for()
    page.keyboard.press("n")
    line = page.get_by_label("What should be done?")
    line.press_sequentially("@ta")
    expect(page.get_by_role("option", name="@talk")).to_be_visible()
    line.press("Enter")
    line.press_sequentially("ask @cri")
    line.press("Tab")
    expect(line).to_have_value("@talk ask @critic ")
    line.press_sequentially("about water")
    expect(page.get_by_role("radio", name="talk")).to_be_checked()
    forecast = page.get_by_role("region", name="Forecast")
    expect(forecast).to_contain_text("Never more than 50,000 tokens")
    page.get_by_label("Tokens at most").fill("20000")
    expect(forecast).to_contain_text("Never more than 20,000 tokens")
    start(page)
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
    expect(page).to_have_url(re.compile("#/runs/"))


def test_the_gallery_shows_teams_with_their_faces_and_says_why_one_can_not_be_loaded(
    server: PageServer, page: Page
) -> None:
    server.open(page, "new")
    gallery = page.get_by_role("group", name="Who does it?")
    expect(gallery).to_contain_text("Three who talk about a text")
    expect(gallery.locator("label", has_text="Three who talk").locator("[role=img]")).to_have_count(3)
    gallery.get_by_role("radio", name="broken").check(force=True)
    expect(page.get_by_text("This team can’t be loaded:")).to_be_visible()
    expect(page.get_by_role("button", name="Start")).to_have_attribute("aria-disabled", "true")
    page.get_by_label("What should be done?").fill("@nobody do it")
    expect(page.get_by_role("alert")).to_contain_text("There is no team nobody")


def test_what_the_server_refuses_is_said_beside_the_field(server: PageServer, page: Page) -> None:
    server.open(page, "new")
    page.get_by_label("What should be done?").fill("@talk Explain this")
    tokens = page.get_by_label("Tokens at most")
    tokens.fill("-5")
    expect(page.locator("#limit-tokens")).to_contain_text("greater than or equal to 0")
    expect(tokens).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Start")).to_have_attribute("aria-disabled", "true")
    tokens.fill("")
    expect(page.locator("#limit-tokens")).to_be_hidden()
    page.get_by_label("Add files").last.set_input_files({"name": "empty.txt", "mimeType": "text/plain", "buffer": b""})
    expect(page.get_by_role("region", name="Files").get_by_role("alert")).to_contain_text("is empty")


def test_a_run_is_started_like_another_with_its_files_and_limits(server: PageServer, page: Page) -> None:
    server.open(page, "new")
    page.get_by_label("What should be done?").fill("@talk Explain boiling")
    page.get_by_label("Add files").last.set_input_files(
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"Water."}
    )
    page.get_by_label("Tokens at most").fill("20000")
    start(page)
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
    first = page.url
    page.get_by_role("button", name="Like this run").click()
    expect(page.get_by_role("radio", name="talk, as before")).to_be_checked()
    expect(page.get_by_label("What should be done?")).to_have_value("Explain boiling")
    expect(page.get_by_label("Tokens at most")).to_have_value("20000")
    expect(page.get_by_role("region", name="Files")).to_contain_text("notes.txt")
    page.get_by_label("What should be done?").fill("Explain freezing")
    start(page)
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
    assert page.url != first
    page.get_by_role("button", name="Files").click()
    expect(page.get_by_role("dialog")).to_contain_text("notes.txt")


@pytest.mark.experts
def test_a_team_of_experts_is_formed_edited_and_started(server: PageServer, page: Page) -> None:
    server.open(page, "new")
    line = page.get_by_label("What should be done?")
    for typed, name in (("@team:ana", "analyst"), (",edi", "editor")):
        line.press_sequentially(typed)
        expect(page.get_by_role("option", name=name)).to_be_visible()
        line.press("Enter")
    expect(line).to_have_value("@team:analyst,editor")
    line.press_sequentially(" Compare the offers.")
    team = page.get_by_role("region", name="The team for this task")
    expect(team.get_by_role("listitem")).to_have_count(2)
    team.get_by_role("checkbox", name="tester").check(force=True)
    expect(line).to_have_value("Compare the offers.")  # the form counts from now on
    team.get_by_role("radio", name="leads: editor").check()
    team.get_by_role("button", name="Remove analyst").click()
    expect(team.get_by_role("listitem")).to_have_count(2)
    team.get_by_role("button", name="Add a role of your own").click()
    expect(team.get_by_role("alert")).to_contain_text("no name of an expert")
    team.get_by_label("Name of the role").fill("baker")
    team.get_by_label("How baker works").fill("Bake, and say how.")
    team.get_by_role("combobox", name="Model").select_option("slow scripted:replies.yaml")
    assert violations(page) == []
    start(page)
    expect(page).to_have_url(re.compile("#/runs/"))
    experts = page.get_by_role("complementary", name="Experts")
    for name in ("editor", "tester", "baker"):
        expect(experts).to_contain_text(name)
    expect(experts).not_to_contain_text("analyst")


@pytest.mark.experts
def test_words_of_the_task_choose_experts_until_a_person_does(server: PageServer, page: Page) -> None:
    server.open(page, "new")
    page.get_by_role("radio", name="A team for this task").check(force=True)
    page.get_by_label("What should be done?").fill("Review the security of our login.")
    team = page.get_by_role("region", name="The team for this task")
    expect(team).to_contain_text("security_reviewer")
    team.get_by_role("button", name="Remove security_reviewer").click()
    page.get_by_label("What should be done?").fill("Review the security of our login, and write about it.")
    expect(page.get_by_role("button", name="Start")).not_to_have_attribute("aria-disabled", "true")
    expect(team.get_by_role("button", name="Remove security_reviewer")).to_be_hidden()
