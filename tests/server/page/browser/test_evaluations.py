"""Reports of experiments, in a browser: figures, sentences, and the run of each attempt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from teamwright import Engine
from teamwright.lab.experiments.dataset import Case
from teamwright.lab.experiments.experiment import CaseAttempt
from teamwright.lab.experiments.recorded_evaluations import record_report
from teamwright.lab.experiments.report import report_of
from tests.server.page.browser.conftest import reader, watched
from tests.server.page.browser.kit import PageServer, complete, violations_in_both_themes, write_teams
from tools.run_page import JOURNAL

PHONE = {"width": 390, "height": 800}
CASES = [Case(id=f"question-{n}", task="Add.", tags=("sums" if n % 2 else "<b>words</b>",)) for n in range(120)]


def attempt(case: Case, number: int, team: str, *, passed: bool) -> CaseAttempt:
    return CaseAttempt(
        case=case.id, attempt=number, variant=team, run_id=f"eval-{team}-{case.id}.{number}", status="completed",
        passed=passed, reason="" if passed else "the answer lacks '42'", usd=0.002, tokens=1200, seconds=3.5,
    )  # fmt: skip


async def write_reports(journal: Path) -> None:
    attempts = [
        attempt(case, number, team, passed=(place + number) % divisor > 0)
        for team, divisor in (("desk", 2), ("office", 5))
        for place, case in enumerate(CASES)
        for number in (1, 2)
    ]
    async with Engine(journal) as engine:
        await record_report(engine, report_of(attempts[:6], CASES[:3]), "desk on few.csv")
        await record_report(engine, report_of(attempts, CASES), "desk and office on sums.csv")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A server with two reports."""
    folder = tmp_path_factory.mktemp("evaluations")
    (folder / "home").mkdir(mode=0o700)
    complete(write_reports(folder / "home" / JOURNAL))
    with PageServer(write_teams(folder / "teams"), folder / "home") as started:
        yield started


def test_a_report_shows_figures_and_sentences_and_leads_to_the_run_of_each_attempt(
    server: PageServer, page: Page
) -> None:
    server.open(page, "operations")
    page.get_by_role("link", name="Evaluations").click()
    shown = page.get_by_role("region", name="desk and office on sums.csv")
    expect(shown.get_by_text("'office' is better than 'desk'")).to_be_visible()
    teams = shown.get_by_role("region", name="Teams", exact=True).get_by_role("row")
    expect(teams.nth(1)).to_contain_text(re.compile(r"desk.*120 of 240.*50% \[44–56\].*\$0.004"))
    expect(shown.get_by_role("region", name="By tag").get_by_role("row", name="<b>words</b> desk")).to_be_visible()
    cases = shown.get_by_role("region", name="By case").get_by_role("row")
    expect(cases).to_have_count(101)
    shown.get_by_role("button", name="Show 140 more cases").click()
    expect(cases).to_have_count(241)
    page.get_by_role("link", name="desk on few.csv").click()
    first = page.get_by_role("row", name=re.compile("question-0flaky"))
    expect(first).to_contain_text("the answer lacks '42'")
    assert (
        first.get_by_role("link", name="Run 2: did not pass").get_attribute("href") == "#/runs/eval-desk-question-0.2"
    )


def test_where_there_is_no_report_it_says_how_one_is_made(own_server: PageServer, own_page: Page) -> None:
    own_server.sign_in(own_page)
    own_server.open(own_page, "operations", "evaluations")
    expect(own_page.get_by_text("teamwright eval team.yaml cases.jsonl")).to_be_visible()
    own_server.open(own_page, "operations", "evaluations", "none")
    expect(own_page.get_by_text("There is no run 'none'")).to_be_visible()


def test_no_reader_is_kept_out_of_reports(server: PageServer, browser: Browser, session: StorageState) -> None:
    context = reader(browser, storage_state=session, reduced_motion="reduce", viewport=PHONE, locale="zh-CN")
    with watched(context.new_page()) as page:
        server.open(page, "operations", "evaluations")
        page.get_by_role("region", name="按用例").wait_for()
        assert violations_in_both_themes(page) == []
        assert page.evaluate("document.getElementById('content').scrollWidth") <= PHONE["width"]
    context.close()
