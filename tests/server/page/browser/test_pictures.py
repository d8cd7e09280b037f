"""The pictures of the documentation are taken from the page over the example runs.

`PICTURES=docs pytest tests/server/page/browser/test_pictures.py` writes them to `docs/pictures/`; otherwise they are
taken and thrown away, so that a view that can't be shown fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.paths import ROOT
from tests.profiles import is_whole
from tests.server.page.browser.conftest import reader
from tests.server.page.browser.kit import PageServer, complete
from tools import run_page

WRITES = os.environ.get("PICTURES") == "docs"
LOOKS = ("light", "dark", "phone") if WRITES or is_whole() else ("light",)
"""In the quick suite `test_appearance` covers the dark theme and phones."""
PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A server over the example runs."""
    home = tmp_path_factory.mktemp("examples")
    complete(run_page.record(home))
    with PageServer(run_page.EXAMPLES, home, run_page.write_slow_team(home)) as started:
        yield started


@pytest.fixture(scope="module")
def opened(examples: PageServer, browser: Browser) -> Iterator[Page]:
    context = reader(browser)
    page = context.new_page()
    examples.sign_in(page)
    yield page
    context.close()


@pytest.fixture
def keep(tmp_path: Path) -> Path:
    return ROOT / "docs" / "pictures" if WRITES else tmp_path


PLACES = {
    "page-runs": ("", "main", "Completed"),
    "page-new": ("new", "main", "expert_review"),
    "page-inbox": ("inbox", "main", "Approve"),
    "page-conversation": ("runs/expert_review-example/conversation", "feed", "chief"),
    "page-plan": ("runs/expert_review-example/plan", "main", "What the design says"),
    "page-money": ("runs/budget-example/money", "main", ""),
    "page-travel": ("runs/expert_review-example/travel", "main", ""),
}


@pytest.mark.experts
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("look", LOOKS)
def test_each_view_can_be_shown(examples: PageServer, opened: Page, keep: Path, name: str, look: str) -> None:
    place, role, text = PLACES[name]
    opened.emulate_media(color_scheme="dark" if look == "dark" else "light")
    size = PHONE if look == "phone" else {"width": 1280, "height": 800}
    opened.set_viewport_size({"width": size["width"], "height": size["height"]})
    examples.open(opened, place)
    shown = opened.get_by_role(role).first  # pyright: ignore[reportArgumentType] - one of the roles
    expect(shown).to_contain_text(text)
    if role == "feed":
        shown.evaluate("feed => { feed.scrollTop = 1100 }")
    opened.wait_for_timeout(700)
    file = keep / f"{name}-{look}.png"
    opened.screenshot(path=file)
    assert file.stat().st_size > 10_000
