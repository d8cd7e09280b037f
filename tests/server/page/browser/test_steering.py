"""A live team is steered from the page: experts join and leave, plans and drafts are decided on, budgets run short."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, StorageState, expect

from tests.server.page.browser.conftest import reader
from tests.server.page.browser.kit import MANIFESTS, REPLIES, REPORT, REPORT_REPLIES, PageServer, Replies, write_teams

pytestmark = pytest.mark.experts
STEERED = {
    "shed": """
models: {primary: "scripted:replies.yaml"}
agents:
  lead: {model: scripted:replies.yaml}
  joiner: {model: scripted:replies.yaml, description: Builds the walls}
  buyer: {model: scripted:replies.yaml}
teams:
  shed:
    strategy: live
    members: [lead, joiner, buyer]
    live:
      steps:
        - {id: walls, agent: joiner, task: Build the walls.}
        - {id: roof, agent: buyer, task: Order a roof., needs: [walls]}
""",
    "house": """
agents:
  mason: {model: scripted:replies.yaml}
  joiner: {model: scripted:replies.yaml}
  tiler: {model: scripted:replies.yaml}
teams:
  house:
    strategy: plan
    members: [mason, joiner, tiler]
    plan:
      steps:
        - {id: walls, agent: mason, task: Build the walls.}
        - {id: beams, agent: joiner, task: Lay the beams., needs: [walls]}
        - {id: roof, agent: tiler, task: Order a roof., needs: [beams]}
""",
    "careful": REPORT.replace("lead: chief", "lead: chief\n      confirm: true"),
    "planned": """
agents:
  planner: {model: scripted:replies.yaml}
  reader: {model: scripted:replies.yaml}
  writer: {model: scripted:replies.yaml}
teams:
  planned:
    strategy: expert
    members: [reader, writer]
    expert: {lead: planner, confirm: true}
""",
    "approval": MANIFESTS["approval"],
    "short": """
agents:
  writer: {model: primary, instructions: Write.}
  editor: {model: primary, instructions: Edit.}
models:
  primary: scripted:replies.yaml
teams:
  short:
    strategy: round_robin
    members: [writer, editor]
    max_turns: 8
    limits: {tokens: 4000}
    degradation: aggressive
""",
    "dear": """
agents:
  writer: {model: scripted:replies.yaml}
teams:
  dear: {members: [writer], confirm: {above: {tokens: 1}}}
""",
    "relay": """
agents:
  first: {model: scripted:replies.yaml}
  second: {model: scripted:replies.yaml}
teams:
  relay:
    strategy: dag
    members: [first, second]
    limits: {tokens: 5000}
    dag:
      steps:
        - {id: begin, agent: first, task: Begin.}
        - {id: end, agent: second, needs: [begin], task: End.}
""",
}
PLAN = {
    "steps": [
        {"id": "reading", "role": "reader", "task": "Read it."},
        {"id": "writing", "role": "writer", "needs": ["reading"], "task": "Write it."},
    ]
}
STEERED_REPLIES: Replies = {
    "shed": [
        {"agent": "joiner", "reply": "The walls stand. " * 20, "delay": 8},
        {"agent": "buyer", "reply": "The roof comes on Monday.", "delay": 1},
        {"agent": "painter", "reply": "The walls are blue."},
        {"agent": "lead", "reply": "The shed is built."},
    ],
    "house": [
        {"agent": "mason", "reply": "The walls stand.", "delay": 6},
        {"agent": "joiner", "reply": "The beams are laid.", "delay": 6},
        {"agent": "tiler", "reply": "The roof comes on Monday."},
    ],
    "careful": REPORT_REPLIES,
    "planned": [{"agent": "planner", "json": PLAN}, *REPORT_REPLIES[:2]],
    "approval": REPLIES["approval"],
    "short": [{"reply": "A long sentence about the same thing as before. " * 12, "delay": 0.3}],
    "dear": [{"agent": "writer", "reply": "It was worth it."}],
    "relay": [
        {"agent": "first", "reply": "It has begun."},
        {"agent": "second", "reply": "It has ended.", "delay": 8},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A server with teams that work slowly, ask before they work, and run short of budget."""
    folder = tmp_path_factory.mktemp("steering")
    teams = write_teams(folder / "teams", STEERED, STEERED_REPLIES)
    with PageServer(teams, folder / "home") as started:
        yield started


def deed(page: Page, name: str) -> Locator:
    """What people did of one kind, the newest first."""
    done = page.get_by_role("region", name="What people did")
    return done.get_by_role("listitem").filter(has_text=name).first


def test_an_expert_is_added_by_keyboard_and_takes_effect(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "shed", view="steer")
    page.get_by_role("button", name="Add an expert").press("Enter")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("painter")
    page.get_by_label("Model").fill("primary")
    page.get_by_label("What it does").fill("Paints")
    page.get_by_label("Instructions").fill("Paint the walls.")
    page.get_by_label("What it does").press("Enter")
    expect(page.get_by_role("button", name="Add an expert")).to_be_focused()
    expect(deed(page, "Expert added")).to_contain_text("Not in effect yet")
    expect(deed(page, "Expert added")).to_contain_text("Took effect")
    expect(page.get_by_role("button", name="Remove: painter")).to_be_visible()
    server.open(page, "runs", run_id, "conversation")
    expect(page.get_by_role("feed")).to_contain_text("painter joins")


def test_an_expert_that_can_not_be_built_is_refused_with_the_reason(server: PageServer, page: Page) -> None:
    server.show_run(page, "shed", view="steer")
    page.get_by_role("button", name="Add an expert").click()
    page.get_by_label("Name").fill("joiner")
    page.get_by_label("Instructions").fill("Build.")
    page.get_by_label("Instructions").press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("joiner")
    expect(page.get_by_label("Instructions")).to_have_value("Build.")


def test_an_expert_is_removed_while_it_speaks_and_its_words_are_kept(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "shed")
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("is writing…")
    server.open(page, "runs", run_id, "steer")
    page.get_by_role("button", name="Remove: joiner").click()
    page.get_by_role("dialog", name="Remove joiner?").get_by_role("button", name="Remove").click()
    expect(deed(page, "Expert removed")).to_contain_text("Not in effect yet")
    expect(deed(page, "Expert removed")).to_contain_text("Took effect")
    server.open(page, "runs", run_id, "conversation")
    expect(page.get_by_role("button", name="joiner left")).to_be_visible()
    expect(feed).to_contain_text("joiner leaves")
    page.get_by_role("button", name="joiner left").click()
    expect(feed).to_contain_text("The walls stand.")
    expect(feed).not_to_contain_text("is writing…")


def test_a_pause_that_is_undone_before_it_took_effect_says_so(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "shed", view="steer")
    page.get_by_role("button", name="Pause: buyer").click()
    expect(deed(page, "Expert paused")).to_contain_text("Not in effect yet")
    page.get_by_role("button", name="Continue: buyer").click()
    expect(deed(page, "Expert paused")).to_contain_text(re.compile("Undone .* before it took effect"))
    expect(deed(page, "Expert paused")).not_to_contain_text("Not in effect yet")
    server.open(page, "runs", run_id, "conversation")
    expect(page.get_by_role("feed")).to_contain_text("The shed is built.")
    server.open(page, "runs", run_id, "steer")
    expect(deed(page, "Expert paused")).not_to_contain_text("Refused")


@pytest.mark.parametrize("team", ["careful", "planned"])
def test_a_plan_is_edited_with_its_difference_before_it_is_confirmed(server: PageServer, page: Page, team: str) -> None:
    server.show_run(page, team, view="plan")
    expect(page.get_by_text("This plan waits for your decision.")).to_be_visible()
    expect(page.get_by_text("draft", exact=False).first).to_be_visible()
    page.get_by_role("button", name="Edit the plan").click()
    dialog = page.get_by_role("dialog", name="Edit the plan")
    dialog.get_by_role("group", name="writing").get_by_label("Task").fill("Write it in Latin.")
    dialog.get_by_label("Task").last.press("Tab")
    difference = dialog.get_by_role("group", name="Difference")
    expect(difference).to_contain_text("Write it.")
    expect(difference).to_contain_text("Write it in Latin.")
    dialog.get_by_role("button", name="Confirm this plan").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("2 of 2 steps done")).to_be_visible()
    expect(page.get_by_text(re.compile("completed$")).first).to_be_visible()
    page.get_by_role("button", name=re.compile("Write the summary|^writing")).first.click()
    expect(page.get_by_role("region", name=re.compile("Write the summary|^writing")).first).to_contain_text("in Latin")


def test_a_running_step_is_stopped_and_what_needs_it_is_skipped(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "shed", view="plan")
    page.get_by_role("button", name=re.compile("^walls")).first.click()
    page.get_by_role("region", name=re.compile("^walls")).get_by_role("button", name="Stop this step").click()
    expect(page.get_by_role("button", name="walls Cancelled")).to_be_visible()
    expect(page.get_by_role("button", name="roof Skipped")).to_be_visible()
    expect(page.get_by_role("button", name="Stop this step")).to_be_hidden()
    work = page.get_by_role("region", name=re.compile("^walls"))
    expect(work.get_by_text("Failed")).to_be_hidden()
    expect(work).to_contain_text("stopped by others")
    turn = page.get_by_role("region", name="Timeline").get_by_role(
        "button", name=re.compile("^joiner; Work; walls; .*Cancelled")
    )
    expect(turn).to_be_visible()
    server.open(page, "runs", run_id, "steer")
    expect(deed(page, "Step stopped")).to_contain_text("Took effect")


def test_an_earlier_version_of_a_plan_is_restored(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "house", view="plan")
    page.get_by_role("button", name="Edit the plan").click()
    dialog = page.get_by_role("dialog", name="Edit the plan")
    dialog.get_by_role("group", name="roof").get_by_label("Task").fill("Order a roof of straw.")
    dialog.get_by_role("button", name="Send").click()
    changes = page.get_by_role("region", name="Changes")
    first = changes.get_by_role("listitem").filter(has_text="Version 1")
    expect(first).to_contain_text("as declared")
    first.get_by_role("button", name="Restore").click()
    expect(changes).to_contain_text("Version 3")
    expect(page.get_by_text("3 of 3 steps done")).to_be_visible()
    page.get_by_role("button", name=re.compile("^roof")).first.click()
    expect(page.get_by_role("region", name="roof")).to_contain_text("Order a roof.")
    server.open(page, "runs", run_id, "steer")
    expect(deed(page, "Plan restored")).to_contain_text("Took effect")


def test_a_draft_is_edited_where_a_run_is_steered(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "approval", view="steer")
    asked = page.get_by_role("region", name="Waits for a person")
    asked.get_by_role("button", name="Edit").press("Enter")
    field = asked.get_by_label("Approve this instead")
    expect(field).to_be_focused()
    expect(field).to_have_value("The new timetable starts on Monday.")
    field.fill("The new timetable starts on Tuesday.")
    asked.get_by_role("button", name="Approve with changes").click()
    expect(page.get_by_text("Completed").first).to_be_visible()
    expect(page.get_by_role("region", name="What people did")).to_contain_text("edit")
    server.open(page, "runs", run_id, "conversation")
    expect(page.get_by_role("feed")).to_contain_text("starts on Tuesday")


def test_a_draft_is_rejected_with_a_reason(server: PageServer, page: Page) -> None:
    server.show_run(page, "approval", view="steer")
    asked = page.get_by_role("region", name="Waits for a person")
    asked.get_by_role("button", name="Reject").click()
    asked.get_by_label("Why it is rejected").fill("Too early.")
    asked.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("region", name="What people did")).to_contain_text("reject")
    expect(page.get_by_text("This run has ended, and can no longer be steered.")).to_be_visible()


def test_a_run_begins_smaller_than_its_forecast(server: PageServer, page: Page) -> None:
    server.show_run(page, "dear", view="steer")
    asked = page.get_by_role("region", name="Waits for a person")
    expect(asked).to_contain_text("May this run of 'dear' begin?")
    expect(asked).to_contain_text("ceiling")
    asked.get_by_role("button", name="Smaller").click()
    asked.get_by_label("Tokens").fill("3000")
    asked.get_by_role("button", name="Send answer").click()
    expect(page.get_by_text("Completed").first).to_be_visible()


def test_cutbacks_are_drawn_and_named_in_both_languages(
    server: PageServer, page: Page, browser: Browser, session: StorageState
) -> None:
    run_id = server.show_run(page, "short", view="money")
    cutbacks = page.get_by_role("list", name="Cutbacks to stay within the budget")
    expect(cutbacks).to_contain_text("Earlier messages shortened")
    context = reader(browser, storage_state=session, locale="zh-CN")
    chinese = context.new_page()
    server.open(chinese, "runs", run_id, "money")
    expect(chinese.get_by_role("list", name="为不超预算而采取的缩减")).to_contain_text("压缩较早的消息")
    context.close()


def test_a_run_is_projected_to_the_end_of_its_plan_which_ends_with_it(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "relay", view="money")
    expect(page.get_by_text("linear, 1 of 2 steps done")).to_be_visible()
    expect(page.get_by_text("projected to the end of the plan")).to_be_visible()
    server.open(page, "runs", run_id, "plan")
    expect(page.get_by_text("under way").first).to_be_visible()
    expect(page.get_by_text("2 of 2 steps done")).to_be_visible()
    expect(page.get_by_text("completed", exact=True)).to_be_visible()
    server.open(page, "runs", run_id, "money")
    expect(page.get_by_text("projected to the end of the plan")).to_be_hidden()
