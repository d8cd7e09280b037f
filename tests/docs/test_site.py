"""The site of the documentation: its chapters, links, anchors and search, and that it loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tools import chromium
from tools.docs_site import DOCS, build, chapters
from tools.house import user_pages

CHAPTERS = ["Start", "Teams", "Money and people", "Running it", "Extending", "Reference", "For contributors"]
pytestmark = pytest.mark.timeout(180)  # the site is built once, for all of them
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements whose files a browser loads with the page."""


class Parsed(HTMLParser):
    """The anchors, links and loaded files of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors, self.links, self.loaded = set[str](), list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what the element has."""
        found = {name: value or "" for name, value in attrs}
        self.anchors.add(found.get("id", ""))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADED and LOADED[tag] in found:
            self.loaded.append(found[LOADED[tag]])


@cache
def parse(file: Path) -> Parsed:
    parsed = Parsed()
    parsed.feed(file.read_text(encoding="utf-8"))
    return parsed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("docs") / "built")


def test_every_page_for_users_is_in_one_of_six_chapters_and_they_are_few() -> None:
    listed = [DOCS / file for pages in chapters().values() for _, file in pages]
    assert list(chapters()) == CHAPTERS
    assert sorted({*listed, DOCS / "README.md"} & {*user_pages()}) == sorted(user_pages())
    assert len(listed) == len(set(listed))
    assert len(user_pages()) <= 43


def test_a_page_stands_in_the_folder_of_its_chapter() -> None:
    folders = [{Path(file).parent.name for _, file in pages} for pages in chapters().values()]
    assert [len(one) for one in folders] == [1] * len(CHAPTERS)
    assert len(set.union(*folders)) == len(CHAPTERS)


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path) -> None:
    broken: list[str] = []
    for page in site.rglob("*.html"):
        for link in [*parse(page).links, *parse(page).loaded]:
            path, _, anchor = unquote(link).partition("#")
            if re.match(r"\w+:", link) or page.name == "404.html":
                continue
            file = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not file.is_file() or (anchor and file.suffix == ".html" and anchor not in parse(file).anchors):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken


def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 80
    assert [file for page in pages for file in parse(page).loaded if re.match(r"(?:\w+:)?//", file)] == []
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", styles) == []


def test_the_search_knows_every_page_for_users(site: Path) -> None:
    found = {one["location"].partition("#")[0] for one in json.loads((site / "search.json").read_bytes())["items"]}
    pages = {str(page.relative_to(DOCS).with_suffix(".html")).replace("README", "index") for page in user_pages()}
    assert sorted(pages - found) == []


@pytest.mark.browser
@pytest.mark.skipif(chromium.path() is None, reason=chromium.MISSING)
def test_the_search_works_from_the_file_system_without_any_request(site: Path) -> None:
    from playwright.sync_api import TimeoutError as PlaywrightTimeout, expect, sync_playwright

    outside: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.path(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page()
        page.on("request", lambda one: outside.append(one.url) if one.url.startswith("http") else None)
        page.goto((site / "teams" / "strategies.html").as_uri())
        page.keyboard.press("Control+k")
        field, found = page.get_by_placeholder("Search").first, page.get_by_role("option", name="The reservation rule")
        field.fill("reservation rule")
        for _ in range(12):  # what is typed before the index is loaded is not looked up until more is typed
            with suppress(PlaywrightTimeout):
                found.wait_for(timeout=10_000)
                break
            field.press_sequentially(" ")
        expect(found).to_be_visible()
        browser.close()
    assert outside == []
