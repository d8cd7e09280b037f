"""The list of runs and the inbox by keys, the palette, and many runs: pages, order, saved filters, several at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import Page, expect

from teamwright.journal import Batch, SqliteJournal
from teamwright.testing.journal import body, commit_all, event
from teamwright.values.events.agent import AgentReturned
from teamwright.values.events.run import RunEnded, RunStarted
from teamwright.values.usage_and_prices import Usage
from tests.server.page.browser.kit import PageServer, complete, violations_in_both_themes, write_teams
from tools.run_page import JOURNAL

MANY = 620
"""More runs than the socket of the page sends."""


async def fill(file: Path) -> None:
    """Record many runs, numbered from the oldest; every tenth failed, and the seventh is the dearest."""
    journal = SqliteJournal(file)
    await journal.open()
    batches: list[Batch] = []
    for number in range(1, MANY + 1):
        run_id, task, manifest = f"run-{number:04}", body(f"Task number {number}."), body("{}")
        started = RunStarted(team="archive", task=next(iter(task)), manifest=next(iter(manifest)), seed=1)
        reply, time = body(f"Answer {number}"), 1_700_000_000.0 + 60 * number
        usage = Usage(input_tokens=9000 if number == 7 else 10, usd=9.0 if number == 7 else 0.01)
        status = "failed" if number % 10 == 0 else "completed"
        facts = (
            started,
            AgentReturned(body=next(iter(reply)), usage=usage),
            RunEnded(status=status, stop_reason="done", seconds=float(number)),
        )
        events = [event(run_id, index, fact, time) for index, fact in enumerate(facts, start=1)]
        batches.append(Batch(events, task | manifest | reply))
    assert set(await commit_all(journal, batches)) == {None}
    await journal.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("list")
    (folder / "home").mkdir()
    complete(fill(folder / "home" / JOURNAL))
    with PageServer(write_teams(folder / "teams"), folder / "home") as started:
        yield started


def numbers(page: Page) -> list[int]:
    """The numbers of the runs that are shown, in their order."""
    return [
        int(one.split("-")[1])
        for one in page.locator("a[data-run]").evaluate_all("all => all.map(one => one.dataset.run)")
    ]


def test_pages_go_beyond_what_the_socket_sends(server: PageServer, page: Page) -> None:
    server.open(page)
    for count in range(100, MANY, 100):
        expect(page.locator("a[data-run]")).to_have_count(count)
        page.get_by_role("button", name="Show more").click()
    expect(page.locator("a[data-run]")).to_have_count(MANY)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    assert numbers(page) == list(range(MANY, 0, -1))


def test_columns_order_all_runs_and_a_filter_is_kept_by_its_name(server: PageServer, page: Page) -> None:
    server.open(page)
    page.get_by_role("button", name="Cost").click()
    expect(page.locator("a[data-run]").first).to_contain_text("Task number 7.")
    expect(page).to_have_url(re.compile("order=-usd"))
    page.get_by_role("button", name="Duration").click()
    expect(page.locator("a[data-run]").first).to_contain_text(f"Task number {MANY}.")
    page.get_by_role("button", name="Duration").click()
    expect(page.locator("a[data-run]").first).to_contain_text("Task number 1.")
    page.get_by_label("Status").select_option("failed")
    expect(page.locator("a[data-run]").first).to_contain_text("Task number 10.")
    page.get_by_role("button", name="Save this filter").click()
    page.get_by_label("Name of the filter").fill("Quick failures")
    page.keyboard.press("Enter")
    server.open(page)
    expect(page.locator("a[data-run]").first).to_contain_text(f"Task number {MANY}.")
    page.reload()
    page.get_by_role("link", name="Quick failures").click()
    expect(page.locator("a[data-run]").first).to_contain_text("Task number 10.")
    page.get_by_role("button", name="Show more").wait_for(state="hidden")
    assert numbers(page) == list(range(10, MANY + 1, 10))
    page.get_by_role("button", name="Remove the filter Quick failures").click()
    expect(page.get_by_role("link", name="Quick failures")).to_be_hidden()


def test_a_search_finds_the_oldest_run(server: PageServer, page: Page) -> None:
    server.open(page)
    page.get_by_label("Search runs").fill("number 3.")
    expect(page.locator("a[data-run]").last).to_contain_text("Task number 3.")
    assert numbers(page)[-1] == 3


def test_the_palette_opens_runs_and_does_what_keys_do(server: PageServer, page: Page) -> None:
    server.open(page)
    page.locator("a[data-run]").first.wait_for()
    page.get_by_label("Search runs").focus()
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Commands and runs")
    expect(palette.get_by_role("option", name=re.compile("Go to the inbox"))).to_be_visible()
    page.keyboard.type("task 0012")
    expect(palette.get_by_role("option").first).to_contain_text("Task number 12.")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/runs/run-0012"))
    page.keyboard.press("Control+k")
    page.keyboard.type("open plan")
    expect(palette.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/runs/run-0012/plan"))
    page.keyboard.press("Control+k")
    page.keyboard.type("nothing has these words")
    expect(palette.get_by_text("Nothing fits")).to_be_visible()
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()


def test_keys_move_through_the_list_and_select_runs_to_export_and_delete(server: PageServer, page: Page) -> None:
    server.open(page)
    page.get_by_role("button", name="Tokens").click()
    page.get_by_role("button", name="Tokens").click()
    expect(page.locator("a[data-run]").first).to_contain_text("Task number 1.")
    for key in ("j", "j", "k", "x", "j", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_role("toolbar", name="Selected runs")).to_contain_text("2 runs selected")
    expect(page.get_by_role("button", name="End runs")).to_have_attribute("aria-disabled", "true")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    with ZipFile(BytesIO(Path(download.value.path()).read_bytes())) as archive:
        assert archive.namelist() == ["run-0001.html", "run-0003.html"]
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete 2 runs?")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("toolbar", name="Selected runs")).to_be_hidden()
    expect(page.locator("a[data-run]").first).to_contain_text("Task number 2.")
    assert not {"run-0001", "run-0003"} & set(server.runs())


def test_several_runs_are_ended_at_once(server: PageServer, page: Page) -> None:
    for _ in range(2):
        server.start_run(page, "approval", "Announce the timetable")
    server.open(page)
    page.get_by_label("Search runs").fill("timetable")
    expect(page.locator("a[data-run]").filter(has_text="Waiting")).to_have_count(2)
    page.get_by_label("Select all that are shown").check()
    page.get_by_role("button", name="End runs").click()
    page.get_by_role("dialog", name="End 2 runs?").get_by_role("button", name="End runs").click()
    expect(page.locator("a[data-run]").filter(has_text="Cancelled")).to_have_count(2)


def test_keys_move_through_the_inbox(server: PageServer, page: Page) -> None:
    run_id = server.start_run(page, "approval")
    server.open(page, "inbox")
    page.get_by_role("button", name="Approve", exact=True).wait_for()
    page.keyboard.press("j")
    expect(page.get_by_role("article", name="Approval: approval")).to_be_focused()
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile(f"#/runs/{run_id}"))


def test_nobody_is_kept_out_of_the_list_and_the_palette(server: PageServer, page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{server.url}/#/?status=failed&order=-usd")
    page.get_by_role("checkbox").nth(1).check()
    assert violations_in_both_themes(page) == []
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("option").first.wait_for()
    assert violations_in_both_themes(page) == []
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
