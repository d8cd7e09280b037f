"""The views beside the conversation, in a browser: plan, money and quality, steering, time travel and the lab."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.paths import ROOT
from tests.server.page.browser.kit import (
    REPORT,
    REPORT_REPLIES,
    PageServer,
    violations,
    violations_in_both_themes,
    write_teams,
)

pytestmark = pytest.mark.experts
DECIDES = REPORT.replace("lead: chief", "lead: chief\n      answer: decision").replace("report:", "decides:", 1)
DECISION = {
    "options": ["Print it", "Send it"],
    "chosen": "Send it",
    "reasons": ["Paper is dear."],
    "dissent": [{"member": "reader", "says": "Some have no screen."}],
}
DECIDES_REPLIES = [*REPORT_REPLIES[:2], {"agent": "chief", "json": DECISION}]
UNPAID = "agents: {clerk: {function: 'gone:clerk'}}\nteams: {unpaid: {members: [clerk]}}\n"
GONE = 'def clerk(task: str) -> str:\n    raise RuntimeError("closed")\n'
EXAMPLES = ("budget", "coding_team", "expert_review", "selector")
VIEWS = ("plan", "money", "steer", "travel", "lab")
STEERED = re.sub(r"(reader|writer): {model: scripted:replies.yaml", r"\1: {function: 'steps:\1'", REPORT)
STEPS = """
import pathlib, anyio

FOLDER = pathlib.Path(__file__).parent

async def reader(task: str) -> str:
    while not (FOLDER / "go").exists():
        await anyio.sleep(0.02)
    return "It is read."

async def writer(task: str) -> str:
    while (FOLDER / "hold").exists():
        await anyio.sleep(0.02)
    return "It is written."
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("views")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PageServer]:
    """A server with examples of several strategies, and a team whose first member waits, so that it can be steered."""
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, folder / "teams" / name)
    own = {"steered": STEERED, "decides": DECIDES, "unpaid": UNPAID}
    write_teams(folder / "teams", own, {"steered": REPORT_REPLIES, "decides": DECIDES_REPLIES, "unpaid": []})
    (folder / "teams" / "unpaid" / "gone.py").write_text(GONE, encoding="utf-8")
    (folder / "teams" / "steered" / "steps.py").write_text(STEPS, encoding="utf-8")
    with PageServer(folder / "teams", folder / "home") as started:
        yield started


@pytest.fixture
def go(server: PageServer, folder: Path) -> Iterator[Path]:
    """The file that the first member of the steered team waits for. While there is a file `hold`, the second waits."""
    file = folder / "teams" / "steered" / "go"
    yield file
    for one in (file, file.with_name("hold")):
        one.unlink(missing_ok=True)


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="Position in the run")


def test_a_plan_shows_states_competition_and_the_verdicts_of_each_step(server: PageServer, page: Page) -> None:
    server.show_run(page, "expert_review", view="plan")
    expect(page.get_by_text("4 of 4 steps done")).to_be_visible()
    graph = page.get_by_role("region", name="Graph of the plan")
    expect(graph.get_by_role("button", name=re.compile("On the critical path"))).not_to_have_count(0)
    graph.get_by_role("button", name=re.compile("What the design says.*Done.*architect")).click()
    detail = page.get_by_role("region", name="What the design says")
    expect(detail).to_contain_text("To be revised")
    expect(detail).to_contain_text("attempt 2")
    page.keyboard.press("Escape")
    expect(detail).to_be_hidden()
    graph.get_by_role("button", name=re.compile("competition")).click()
    expect(page.get_by_role("region", name="The one thing to change first")).to_contain_text("guardvotes: 2won")
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline.get_by_role("button", name=re.compile("^guard; Work; findings; "))).to_be_visible()


def test_a_decision_is_shown_as_a_table(server: PageServer, page: Page) -> None:
    server.show_run(page, "decides")
    answer = page.get_by_role("article").filter(has_text="Answer of decides")
    expect(answer.get_by_role("row", name=re.compile("^Options"))).to_contain_text("Print it")
    expect(answer.get_by_role("row", name="Chosen Send it")).to_be_visible()
    expect(answer.get_by_role("row", name="reader Some have no screen.", exact=True)).to_be_visible()
    expect(page.get_by_role("feed")).not_to_contain_text('"chosen"')
    assert violations(page) == []


def test_a_run_that_spent_nothing_has_no_curve(server: PageServer, page: Page) -> None:
    server.show_run(page, "unpaid", view="money")
    expect(page.get_by_text("1 failed")).to_be_visible()
    expect(page.get_by_text("Nothing has been spent yet")).to_be_visible()
    expect(page.locator("figure")).to_have_count(0)


def test_a_team_without_a_plan_has_a_timeline(server: PageServer, page: Page) -> None:
    server.show_run(page, "selector", view="plan")
    expect(page.get_by_role("heading", name="This team works without a plan")).to_be_visible()
    expect(page.get_by_role("region", name="Timeline")).to_contain_text("foreman")


def test_a_running_plan_is_edited_with_its_difference(server: PageServer, page: Page, go: Path) -> None:
    go.with_name("hold").touch()
    server.show_run(page, "steered", view="plan")
    page.get_by_role("button", name="Edit the plan").click()
    dialog = page.get_by_role("dialog", name="Edit the plan")
    expect(dialog).to_contain_text("Nothing is changed yet.")
    dialog.get_by_role("group", name="writing").get_by_label("Task").fill("Write it in Latin.")
    dialog.get_by_role("button", name="Add a step").click()
    expect(dialog.get_by_role("group", name="Difference")).to_contain_text("Write it in Latin.")
    dialog.get_by_label("Task").last.fill("Check it.")
    dialog.get_by_label("Task").last.press("Tab")
    dialog.get_by_role("button", name="Send this plan").click()
    expect(dialog).to_be_hidden()
    pending = page.get_by_role("status").get_by_text("Plan edited: accepted; it takes effect when the step")
    expect(pending).to_be_visible()
    go.touch()
    expect(page.get_by_text("Version 2, under way")).to_be_visible()
    expect(pending).to_be_hidden()
    expect(page.get_by_role("button", name=re.compile("^step_3"))).to_be_visible()
    expect(page.get_by_role("region", name="Changes")).to_contain_text("Write it in Latin.")


def test_why_a_plan_is_refused_is_said_until_it_is_changed(server: PageServer, page: Page, go: Path) -> None:
    server.show_run(page, "steered", view="plan")
    page.get_by_role("button", name="Edit the plan").click()
    dialog = page.get_by_role("dialog", name="Edit the plan")
    dialog.get_by_role("button", name="JSON").click()
    dialog.get_by_role("textbox", name="JSON").fill('{"steps": "none"}')
    dialog.get_by_role("button", name="Send this plan").click()
    expect(dialog.get_by_role("alert")).to_contain_text("steps")
    dialog.get_by_role("textbox", name="JSON").fill('{"steps": [')
    expect(dialog.get_by_role("alert")).to_have_count(1)
    expect(dialog.get_by_role("alert")).to_contain_text("JSON")
    go.touch()


def test_every_intervention_says_when_it_was_accepted_and_took_effect(server: PageServer, page: Page, go: Path) -> None:
    server.show_run(page, "steered", view="steer")
    done = page.get_by_role("region", name="What people did")
    page.get_by_role("combobox", name=re.compile("^To")).select_option("writer")
    page.get_by_role("textbox", name="Message").fill("Mind the gap.")
    page.get_by_role("button", name="Send", exact=True).click()
    message = done.get_by_role("listitem").filter(has_text="Mind the gap.").first
    expect(message).to_contain_text("Accepted")
    expect(message).to_contain_text("Not in effect yet")
    tokens = page.get_by_label("Tokens: raise to")
    tokens.fill("1")
    page.get_by_role("button", name="Raise the budget").click()
    expect(page.get_by_role("alert")).to_be_visible()
    tokens.fill("60000e")
    expect(page.get_by_role("alert")).to_have_text(re.compile("^This is no number"))
    expect(page.get_by_role("button", name="Raise the budget")).to_have_attribute("aria-disabled", "true")
    tokens.fill("60000")
    page.get_by_role("button", name="Raise the budget").click()
    expect(done.get_by_role("listitem").filter(has_text="Budget raised").first).to_contain_text("Took effect")
    expect(page.get_by_text("of 60k")).to_be_visible()
    page.get_by_role("button", name="Pause: writer").click()
    expect(page.get_by_role("button", name="Continue: writer")).to_be_visible()
    page.get_by_role("button", name="Continue: writer").click()
    expect(page.get_by_role("button", name="Pause: writer")).to_be_visible()
    go.touch()
    expect(message).to_contain_text("Took effect")


def test_an_expert_is_removed_while_others_work(server: PageServer, page: Page, go: Path) -> None:
    server.show_run(page, "steered", view="steer")
    page.get_by_role("button", name="Remove: writer").click()
    page.get_by_role("dialog", name="Remove writer?").get_by_role("button", name="Remove").click()
    removed = (
        page.get_by_role("region", name="What people did").get_by_role("listitem").filter(has_text="Expert removed")
    )
    expect(removed.first).to_contain_text("Accepted")
    go.touch()
    expect(removed.first).to_contain_text(re.compile("Took effect|Refused"))


def test_a_run_is_paused_and_continued(server: PageServer, page: Page, go: Path) -> None:
    server.show_run(page, "steered", view="steer")
    page.get_by_role("button", name="Pause", exact=True).click()
    done = page.get_by_role("region", name="What people did")
    expect(done.get_by_role("listitem").filter(has_text="Pause").first).to_contain_text("Accepted")
    go.touch()
    page.get_by_role("button", name="Continue", exact=True).click()
    expect(page.get_by_text("This run has ended, and can no longer be steered.")).to_be_visible()
    for deed in ("Pause", "Continue"):
        expect(done.get_by_role("listitem").filter(has_text=deed).first).to_contain_text("Took effect")


def test_a_run_is_stopped_once_the_reader_confirms_it(server: PageServer, page: Page) -> None:
    server.show_run(page, "steered", view="steer")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog", name="Stop this run?").get_by_role("button", name="Stop").click()
    expect(page.get_by_text("This run has ended, and can no longer be steered.")).to_be_visible()
    stopped = page.get_by_role("region", name="What people did").get_by_role("listitem").filter(has_text="Stop")
    expect(stopped.first).to_contain_text("Took effect")


def test_a_question_is_answered_where_a_run_is_steered(own_server: PageServer, own_page: Page) -> None:
    own_server.sign_in(own_page)
    own_server.show_run(own_page, "approval", view="steer")
    asked = own_page.get_by_role("region", name="Waits for a person")
    expect(asked).to_contain_text("The new timetable starts on Monday.")
    asked.get_by_role("button", name="Approve", exact=True).click()
    expect(own_page.get_by_text("Completed").first).to_be_visible()
    expect(own_page.get_by_role("region", name="What people did")).to_contain_text("approve")


def test_the_budget_burns_down_and_verdicts_and_gates_are_shown(server: PageServer, page: Page) -> None:
    server.show_run(page, "budget", view="money")
    expect(page.get_by_role("img", name=re.compile("What is left of the budget: .* Budget left"))).to_be_visible()
    expect(page.get_by_role("table", name="By expert")).to_contain_text("clerk")
    server.show_run(page, "expert_review", view="money")
    expect(page.get_by_role("table", name="By purpose")).to_contain_text("Coordination")
    expect(page.get_by_text("reading", exact=True)).to_be_visible()
    expect(page.get_by_text("Pass rate").first).to_be_visible()


def test_one_slider_moves_all_views_by_keyboard(server: PageServer, page: Page) -> None:
    server.show_run(page, "expert_review", view="travel")
    expect(page.get_by_text("The run ends: Completed")).to_be_visible()
    slider(page).focus()
    page.keyboard.press("Home")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name=re.compile("Event 7 of "))).to_be_visible()
    page.get_by_role("heading", name=re.compile("Event 7 of ")).click()
    page.keyboard.press("]")
    expect(page.get_by_role("heading", name=re.compile("Event 8 of "))).to_be_visible()
    page.keyboard.press("2")
    expect(page.get_by_text("0 of 4 steps done")).to_be_visible()
    page.keyboard.press("3")
    expect(page.get_by_role("heading", name="Nothing has been spent yet")).to_be_visible()
    page.keyboard.press("l")
    expect(page.get_by_role("table", name="By expert")).to_contain_text("architect")


def test_a_run_is_forked_with_another_task_and_compared(server: PageServer, page: Page) -> None:
    server.show_run(page, "selector", "Build a shed.", view="travel")
    expect(page.get_by_text("The run ends: Completed")).to_be_visible()
    page.get_by_role("button", name="Previous result").click()
    page.get_by_role("button", name="Change task or limits…").click()
    page.get_by_label("Task").fill("Build a barn.")
    fork, tokens = page.get_by_role("button", name="Fork"), page.get_by_label("Limit of tokens")
    tokens.press_sequentially("5e")
    expect(page.get_by_role("alert")).to_contain_text("no number")
    expect(fork).to_have_attribute("aria-disabled", "true")
    tokens.fill("5e5")
    expect(page.get_by_role("alert")).to_be_hidden()
    fork.click()
    page.get_by_role("link", name="Compare both").click()
    compared = page.get_by_role("region", name="Compare with another run").last
    expect(compared).to_contain_text(re.compile(r"\d+ turns the same, \d+ asked differently"))
    expect(compared.get_by_role("heading").first).to_be_in_viewport()
    expect(page.get_by_role("paragraph").filter(has_text="Forked at event")).to_be_visible()


def test_patches_are_shown_as_diffs_and_a_conflict_where_it_happened(server: PageServer, page: Page) -> None:
    server.show_run(page, "coding_team", "Make the tests pass.")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text(re.compile(r"changes by (prices|taxes) refused \(conflict\): CHANGES\.md"))
    expect(feed).to_contain_text("all tests pass", timeout=30_000)
    page.get_by_role("button", name="Files").click()
    files = page.get_by_role("dialog", name="Files")
    files.get_by_role("button", name=re.compile(r"Preview: .*\.diff")).first.click()
    expect(files.locator(".diff .file")).to_contain_text([re.compile(r"\.py$")])
    expect(files.locator(".diff .removed").first).to_have_text(re.compile(r"^-"))
    expect(files.locator(".diff .added").first).to_have_text(re.compile(r"^\+"))


def test_the_lab_advises_simulates_compares_and_sweeps(server: PageServer, page: Page) -> None:
    server.show_run(page, "decides", view="lab")
    expect(page.get_by_role("region", name="Advice for this team").first).to_contain_text("confidence", timeout=60_000)
    expect(page.get_by_role("region", name="Topologies compared").first).to_contain_text("Star")
    page.get_by_role("button", name="Simulate 50 runs").click()
    simulated = page.get_by_role("region", name="Simulation of this team").first
    expect(simulated).to_contain_text("As declared", timeout=120_000)  # 250 runs, beside other tests
    sweep = page.get_by_role("region", name="Sweep", exact=True)
    sweep.get_by_role("button", name="Compute").click()
    expect(sweep.get_by_role("table", name="Mesh")).to_be_visible()


def test_nobody_is_kept_out_of_a_view(server: PageServer, page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    server.show_run(page, "steered", view="steer")
    page.get_by_role("button", name="Add an expert").click()
    assert violations_in_both_themes(page) == []
    run_id = server.show_run(page, "expert_review", view="plan")
    expect(page.get_by_text("4 of 4 steps done")).to_be_visible()
    page.get_by_role("button", name=re.compile("competition")).first.click()
    assert violations_in_both_themes(page) == []
    server.open(page, "runs", run_id, "money")
    page.get_by_text("reading", exact=True).click()
    assert violations_in_both_themes(page) == []
    server.open(page, "runs", run_id, "lab")
    expect(page.get_by_role("region", name="Topologies compared").first).to_contain_text("Star")
    sweep = page.get_by_role("region", name="Sweep", exact=True)
    sweep.get_by_role("button", name="Compute").click()
    expect(sweep.get_by_role("table", name="Mesh")).to_be_visible()
    assert violations_in_both_themes(page) == []
    page.goto(f"{server.url}/#/runs/{run_id}/travel?with={run_id}")
    expect(page.get_by_text("turns the same")).to_be_visible()
    assert violations_in_both_themes(page) == []


def test_no_view_is_wider_than_a_phone(server: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    run_id = server.start_run(page, "expert_review", "Attack " + "a_very_long_word_" * 12)
    for view in VIEWS:
        server.open(page, "runs", run_id, view)
        page.wait_for_timeout(700)
        assert page.evaluate("document.querySelector('.view').scrollWidth") <= 390, view
        assert page.evaluate("document.documentElement.scrollHeight") <= 800, view
