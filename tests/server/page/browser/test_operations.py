"""Operations, in a browser: figures over time, the cluster, memories, and templates of experts."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, StorageState, expect

from teamwright.journal import SqliteJournal
from teamwright.journal.agent_notes import Note
from teamwright.journal.location import JOURNAL_VARIABLE
from teamwright.journal.postgres.cluster_tables import ScheduleRow
from teamwright.journal.postgres.connection import DatabaseAddress, connect
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.tenant_budgets import PICODOLLARS
from teamwright.values.value import JsonValue
from tests.kit.postgres import postgres_server, schema_url
from tests.server.page.browser.conftest import reader, watched
from tests.server.page.browser.kit import PageServer, complete, violations, violations_in_both_themes, write_teams
from tools.run_page import JOURNAL

__all__ = ["postgres_server"]
PARTS = ("figures", "memory", "experts")
NOTES = ("Rye needs a night in the cold.", "The oven of the shop runs twenty degrees hot.")
PHONE = {"width": 390, "height": 800}


async def write_notes(journal: Path) -> None:
    opened = SqliteJournal(journal)
    await opened.open()
    for text in NOTES:
        await opened.notes.add(Note(0, "bakery/baker", text, "baker", "", 1_700_000_000.0), key=text, most=10)
    await opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operations")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PageServer]:
    """A server whose journal has notes."""
    (folder / "home").mkdir(mode=0o700)
    complete(write_notes(folder / "home" / JOURNAL))
    with PageServer(write_teams(folder / "teams"), folder / "home") as started:
        yield started


@pytest.fixture(scope="module")
def days(server: PageServer, folder: Path, browser: Browser) -> dict[str, int]:
    """Runs of two teams on the last four days."""
    context = reader(browser)
    page = context.new_page()
    started = [server.start_run(page, team) for team in ("talk", "talk", "hostile", "talk")]
    headers = {"Authorization": f"Bearer {server.tokens.create('days', 'read')}"}
    for run_id in started:
        while page.request.get(f"{server.url}/api/runs/{run_id}", headers=headers).json()["status"] == "running":
            page.wait_for_timeout(50)
    context.close()
    with sqlite3.connect(folder / "home" / JOURNAL) as database:
        for ago, run_id in enumerate(started):
            database.execute("UPDATE runs SET started = started - ? WHERE id = ?", (86_400 * ago, run_id))
    return {"talk": 3, "hostile": 1}


def test_figures_are_drawn_by_day_and_added_up_by_team_and_model(
    server: PageServer, page: Page, days: dict[str, int]
) -> None:
    server.open(page)
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", name="Operations")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Runs: 4; most 1 on "))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Runs:")).locator("rect")).to_have_count(4)
    expect(page.get_by_role("img", name="Pass rate: not reviewed")).to_be_visible()
    row = page.get_by_role("region", name="By team").first.get_by_role("row", name=re.compile("^talk"))
    expect(row).to_contain_text(re.compile(rf"talk{days['talk']}100"))
    expect(page.get_by_role("region", name="By model").first.get_by_role("row")).to_have_count(2)
    page.get_by_role("combobox", name="Team").select_option("hostile")
    expect(page.get_by_role("img", name=re.compile("^Runs: 1;"))).to_be_visible()
    assert "team=hostile" in page.url
    page.get_by_label("Time").select_option("7")
    page.reload()
    expect(page.get_by_role("combobox", name="Time")).to_have_value("7")
    expect(page.get_by_role("img", name=re.compile("^Runs: 1;")).locator("rect")).to_have_count(1)


def test_notes_are_found_edited_and_removed_by_an_admin(server: PageServer, page: Page) -> None:
    server.open(page, "operations", "memory")
    note = page.get_by_role("listitem").filter(has_text="Rye")
    page.get_by_label("Search the notes").fill("oven")
    expect(note).to_be_hidden()
    page.get_by_label("Search the notes").fill("")
    note.get_by_role("button", name="Edit").click()
    field = page.get_by_role("textbox", name="Note")
    expect(field).to_be_focused()
    field.fill(" ")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_have_text("The note is empty; write what is to be remembered.")
    field.fill("Rye needs a day in the cold.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Rye needs a day in the cold.")).to_be_visible()
    page.get_by_role("button", name="Add a note").click()
    page.get_by_role("textbox", name="Note").fill("Salt late.")
    page.get_by_role("button", name="Save").click()
    added = page.get_by_role("listitem").filter(has_text="Salt late.")
    added.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog", name="Remove this note?").get_by_role("button", name="Remove").click()
    expect(added).to_be_hidden()
    expect(page.get_by_role("navigation", name="Memories")).to_contain_text("bakery/baker2")


@pytest.mark.experts
def test_a_template_is_edited_for_a_team_and_a_new_one_is_written(server: PageServer, folder: Path, page: Page) -> None:
    server.open(page, "operations", "experts")
    page.get_by_label("Folder of the team").select_option("talk")
    page.get_by_role("navigation", name="Templates of experts").get_by_role("link", name="editor", exact=True).click()
    form = page.get_by_role("form", name="editor")
    expect(form.get_by_label("Method")).to_have_value(re.compile("Read as the reader"))
    form.get_by_label("Who it is").fill("You read ${HOME}.")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("can't read 'HOME'")
    expect(form.get_by_label("Who it is")).to_be_focused()
    form.get_by_label("Who it is").fill("You read aloud.")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status")).to_contain_text("Saved")
    written = (folder / "teams" / "talk" / "experts" / "editor.yaml").read_text(encoding="utf-8")
    assert "persona: You read aloud." in written
    assert "Read as the reader" in written
    page.get_by_role("button", name="New template").click()
    form = page.get_by_role("form", name="New template")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_have_text("Give the template a name.")
    form.get_by_label("What it does").fill("Brews beer.")
    for name, words in {"editor": "a template 'editor' already", "analyst": "built-in", "a/b": "'a/b'"}.items():
        form.get_by_label(re.compile("^Name")).fill(name)
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text(words)
        expect(form.get_by_label(re.compile("^Name"))).to_be_focused()
    form.get_by_label(re.compile("^Name")).fill("brewer")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("form", name="brewer").get_by_label("What it does")).to_have_value("Brews beer.")
    expect(page.get_by_role("link", name="brewer own")).to_be_visible()
    assert sorted(one.name for one in (folder / "teams" / "talk" / "experts").iterdir()) == [
        "brewer.yaml",
        "editor.yaml",
    ]


@pytest.mark.experts
def test_an_answer_that_comes_late_does_not_undo_what_a_reader_has_typed(server: PageServer, page: Page) -> None:
    late: list[Route] = []

    def delay(route: Route) -> None:
        late.append(route)

    page.route(re.compile(r"/api/experts\?team=talk"), delay)
    page.route("**/api/experts/analyst", lambda route: route.fulfill(json={"name": "analyst"}))  # what is saved
    server.open(page, "operations", "experts")
    page.get_by_label("Folder of the team").select_option("talk")
    page.get_by_role("navigation", name="Templates of experts").get_by_role("link", name="analyst", exact=True).click()
    form = page.get_by_role("form", name="analyst")
    form.get_by_label("Who it is").fill("You count twice.")
    with page.expect_response(re.compile(r"/api/experts\?team=talk")) as answered:
        late[0].continue_()
    answered.value.finished()
    with page.expect_request("**/api/experts/analyst") as saved:
        form.get_by_role("button", name="Save").click()
    assert saved.value.post_data_json == {"team": "talk", "persona": "You count twice."}


@pytest.mark.experts
def test_who_is_no_admin_reads_and_is_told_why_not_more(server: PageServer, own_page: Page) -> None:
    own_page.goto(f"{server.url}/#/operations/memory")
    own_page.get_by_label("Token").fill(server.tokens.create("rosa", "run"))
    own_page.get_by_role("button", name="Sign in").click()
    button = own_page.get_by_role("button", name=re.compile("^Add a note"))
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", re.compile("this needs “admin”"))
    server.open(own_page, "operations", "experts", "editor")
    expect(own_page.get_by_label("Method")).not_to_be_editable()
    server.open(own_page, "operations", "cluster")
    expect(own_page.get_by_text("This part is not there")).to_be_visible()


async def write_cluster(url: str) -> None:
    journal = PostgresJournal(url)
    await journal.open()
    worker: dict[str, JsonValue] = {
        "name": "oven-1",
        "queue": "default",
        "state": "ready",
        "at_once": 4,
        "driving": ["run-a"],
        "seconds": 90,
    }
    for name in ("oven-1", "oven-2"):
        await journal.cluster.workers.update(name, {**worker, "name": name, "finished": 12})
    nightly = ScheduleRow("nightly", "0 7 * * *", "Europe/Berlin", "default", 0, 1.0, 4_000_000_000.0)
    await journal.cluster.schedules.add(nightly, "{}")
    await journal.budgets.put("bakery", 50 * PICODOLLARS, 2_000_000, "day")
    await journal.close()
    async with await connect(DatabaseAddress.parse(url)) as connection:  # however slow the machine is
        await connection.execute("UPDATE workers SET seen = now() + interval '1 hour' WHERE id = 'oven-1'")
        await connection.execute("UPDATE workers SET seen = now() - interval '1 minute' WHERE id = 'oven-2'")


@pytest.fixture
def cluster_server(
    postgres_server: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PageServer]:
    """A server whose journal is in Postgres, with a worker, a schedule, a budget, and a run that waits."""
    url = schema_url(postgres_server, tmp_path)
    complete(write_cluster(url))
    monkeypatch.setitem(os.environ, JOURNAL_VARIABLE, url)
    with PageServer(write_teams(tmp_path / "teams"), tmp_path / "home") as started:
        yield started


@pytest.mark.cluster
def test_workers_queues_schedules_and_budgets_are_shown(cluster_server: PageServer, own_page: Page) -> None:
    cluster_server.sign_in(own_page)
    new = {"team": "talk", "task": "Go", "budget": "bakery", "limits": {"usd": 20, "tokens": 50_000}}
    headers = {"Authorization": f"Bearer {cluster_server.tokens.create('kit', 'run')}"}
    sent = own_page.request.post(f"{cluster_server.url}/api/queues/slow/runs", data=new, headers=headers)
    assert sent.ok, sent.text()
    cluster_server.open(own_page, "operations", "cluster")
    workers = own_page.get_by_role("region", name="Workers", exact=True).first
    expect(workers.get_by_role("row", name=re.compile("^oven-1"))).to_contain_text(re.compile("Ready.*1 of 4.*12"))
    expect(workers.get_by_role("row", name=re.compile("^oven-2"))).to_contain_text("Lost")
    expect(own_page.get_by_text(re.compile("^1 worker, 1 open run, the oldest waits for"))).to_be_visible()
    queues = own_page.get_by_role("region", name="Queues", exact=True).first
    expect(queues.get_by_role("row", name=re.compile("^slow 1 0"))).to_be_visible()
    budgets = own_page.get_by_role("region", name="Budgets of tenants")
    expect(budgets).to_contain_text("$0.00 spent and $20.00 reserved of $50.00")
    expect(budgets).to_contain_text("0 spent and 50K reserved of 2M")
    assert violations(own_page) == []
    own_page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert own_page.evaluate("document.getElementById('content').scrollWidth") <= PHONE["width"]
    own_page.get_by_role("button", name="Remove: nightly").click()
    own_page.get_by_role("dialog", name="Remove the schedule nightly?").get_by_role("button", name="Remove").click()
    expect(own_page.get_by_text("There are no schedules")).to_be_visible()


@pytest.mark.experts
def test_no_reader_is_kept_out_of_operations(
    server: PageServer, browser: Browser, session: StorageState, days: dict[str, int]
) -> None:
    assert days
    context = reader(browser, storage_state=session, reduced_motion="reduce", viewport=PHONE, locale="zh-CN")
    with watched(context.new_page()) as page:
        for part in PARTS:
            server.open(page, "operations", part, *(["editor"] if part == "experts" else []))
            waited = {"figures": "按模型", "memory": "记忆", "experts": "editor"}[part]
            page.get_by_label(waited).first.wait_for()
            assert violations_in_both_themes(page) == [], part
            for element in ("document.documentElement", "document.getElementById('content')"):
                assert page.evaluate(f"{element}.scrollWidth") <= PHONE["width"], part
    context.close()
