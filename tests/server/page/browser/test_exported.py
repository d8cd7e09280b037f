"""A run as one file, opened from disk in a browser: no server, no request, no script of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from teamwright import Engine, load_team
from teamwright.server.page.export import PageBundle, export_html
from tests.paths import EXAMPLES
from tests.server.page.browser.conftest import reader
from tests.server.page.browser.kit import complete, write_teams

MOST = 1_000_000
"""Bytes of an exported file besides its texts."""


async def export(team: Path, task: str) -> str:
    async with Engine("memory") as engine:
        await engine.run(load_team(team), task, run_id="kept")
        return await export_html(engine, "kept", PageBundle.load())


def write_file(team: Path, task: str, file: Path) -> Path:
    """Run a team and export the run."""
    file.write_text(complete(export(team, task)), encoding="utf-8")
    return file


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that notes what it asks of a network and what its console says."""
    context = reader(browser)
    opened = context.new_page()
    asked: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: asked.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: asked.append(str(error)))
    yield opened
    assert [one for one in asked if not one.startswith("file://")] == []
    context.close()


@pytest.mark.experts
def test_a_file_shows_a_run_without_a_server(page: Page, tmp_path: Path) -> None:
    task = (EXAMPLES / "expert_review" / "task.txt").read_text(encoding="utf-8")
    file = write_file(EXAMPLES / "expert_review", task, tmp_path / "review.html")
    page.goto(file.as_uri())
    feed = page.get_by_role("feed")
    expect(feed).to_contain_text("Decision we propose")
    expect(page.get_by_text("Completed").first).to_be_visible()
    page.get_by_role("link", name="Plan", exact=True).click()
    expect(page.get_by_text("What is wrong with it").first).to_be_visible()
    page.get_by_role("link", name="Conversation", exact=True).click()
    author = feed.get_by_role("article").filter(has_text="Decision we propose").first
    author.get_by_role("button", name="Exact prompt").click()
    expect(page.get_by_role("dialog")).to_contain_text("Put the answer together")


def test_hostile_texts_in_a_file_do_nothing(page: Page, tmp_path: Path) -> None:
    teams = write_teams(tmp_path / "teams")
    task = "</script><script>window.hacked = 5</script><!--"
    page.goto(write_file(teams / "hostile" / "team.yaml", task, tmp_path / "hostile.html").as_uri())
    expect(page.get_by_role("feed").locator("strong", has_text="bold").first).to_be_visible()
    assert page.evaluate("window.hacked") is None


def test_the_page_in_a_file_is_small() -> None:
    bundle = PageBundle.load()
    assert len(bundle.script.encode()) + len(bundle.style.encode()) < MOST
