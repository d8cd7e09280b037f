"""The start of a run, in a browser: who does it, with what, and what it may cost, before it begins."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

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
    limits = page.get_by_role("group", name="Ceiling")
    expect(limits.get_by_role("alert")).to_contain_text("must be at least 0")
    expect(tokens).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Start")).to_have_attribute("aria-disabled", "true")
    tokens.fill("")
    expect(limits.get_by_role("alert")).to_be_hidden()
    page.get_by_label("Add files").last.set_input_files({"name": "empty.txt", "mimeType": "text/plain", "buffer": b""})
    expect(page.get_by_role("region", name="Files").get_by_role("alert")).to_contain_text("is empty")


def test_a_limit_that_is_no_number_is_said_beside_its_field_and_nothing_starts_without_it(
    server: PageServer, page: Page
) -> None:
    asked: list[object] = []
    page.on("request", lambda one: asked.append(one.post_data_json) if one.url.endswith("/forecast") else None)
    server.open(page, "new")
    page.get_by_label("What should be done?").fill("@talk Explain this")
    button, dollars = page.get_by_role("button", name="Start"), page.get_by_label("US dollars at most")
    expect(button).not_to_have_attribute("aria-disabled", "true")
    for typed in ("5e", "1e400", "1-2"):
        dollars.clear()
        dollars.press_sequentially(typed)
        expect(page.get_by_role("group", name="Ceiling").get_by_role("alert")).to_contain_text("no number")
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(dollars).to_have_value(typed)
    dollars.fill("0.5")
    expect(page.get_by_role("region", name="Forecast")).to_contain_text("$0.5")
    expect(button).not_to_have_attribute("aria-disabled", "true")
    assert [one["limits"] for one in asked if isinstance(one, dict)][-1] == {"usd": 0.5}


def test_the_forecast_of_another_team_is_never_shown(server: PageServer, page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/runs/forecast", hold)
    server.open(page, "new")
    line, button = page.get_by_label("What should be done?"), page.get_by_role("button", name="Start")
    with page.expect_request("**/api/runs/forecast"):
        line.fill("@talk One")
    line.fill("@slow Other")
    with page.expect_response("**/api/runs/forecast"):
        held[0].continue_()
    page.wait_for_timeout(100)  # less than the pause before the next one is asked for
    expect(page.get_by_role("region", name="Forecast")).not_to_contain_text("50,000")
    expect(button).to_have_attribute("aria-disabled", "true")


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
    own = team.get_by_label("Name of the role")
    for name, problem in (
        ("", "no name of an expert"),
        ("bad name !", "no name of an expert"),
        ("editor", "two roles"),
    ):
        own.fill(name)
        expect(own).to_have_accessible_description(re.compile(problem))
        expect(own).to_have_attribute("aria-invalid", "true")
        expect(team.get_by_role("alert")).to_have_count(1)
        expect(team.get_by_role("listitem").last.get_by_role("alert")).not_to_contain_text("roles.")
    own.fill("baker")
    expect(team.get_by_role("radio", name="leads: editor")).to_be_checked()  # also after two had its name
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
