"""Browser tests of the page: Debian's chromium against a real server in a process of its own, with scripted teams.

Where there is no browser, they are skipped with a line that says so. Playwright and the browser are started once for
this folder and stopped before other tests: while Playwright runs, its event loop is the one of the thread, and those
need their own.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect, sync_playwright

from tests.server.page.browser.kit import PageServer, write_teams
from tools import chromium, page as page_build

TIMEOUT = 20_000
"""Milliseconds; the machine that runs the tests is busy with others."""
ARGUMENTS = [
    "--no-sandbox", "--disable-dev-shm-usage",
    "--disable-gpu", "--disable-gpu-compositing",
]  # fmt: skip
"""Containers have neither the kernel's user namespaces nor enough shared memory, and emulating a GPU takes longer."""
expect.set_options(timeout=TIMEOUT)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark browser tests, give them time, and skip them where there is no browser."""
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:  # all of the session, which are thousands
        if not str(item.path).startswith(here):
            continue
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.timeout(180))
        if chromium.path() is None:
            item.add_marker(pytest.mark.skip(reason=chromium.MISSING))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    page_build.build()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium.path(), args=ARGUMENTS)
        yield launched
        launched.close()


def reader(browser: Browser, **changes: Any) -> BrowserContext:
    """A browser of a reader in Berlin with an English page, unless changed."""
    size = {"width": 1280, "height": 800}
    settings: Any = {"locale": "en-GB", "timezone_id": "Europe/Berlin", "viewport": size, **changes}
    context = browser.new_context(**settings)
    context.set_default_timeout(TIMEOUT)
    return context


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """One server for the tests of a module; each starts runs of its own."""
    folder = tmp_path_factory.mktemp("server")
    with PageServer(write_teams(folder / "teams"), folder / "home") as started:
        yield started


@pytest.fixture(scope="module")
def session(browser: Browser, server: PageServer) -> StorageState:
    """The storage of a reader who has opened the printed address."""
    context = reader(browser)
    server.sign_in(context.new_page())
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def context(browser: Browser, session: StorageState) -> Iterator[BrowserContext]:
    opened = reader(browser, storage_state=session)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """The page of a reader who is signed in; its errors fail the test."""
    with watched(context.new_page()) as opened:
        yield opened


@contextmanager
def watched(opened: Page) -> Generator[Page]:
    """Fail where a page reports an error, except those of the network, which tests cause."""
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield opened
    expected = ("WebSocket connection", "Failed to load resource", "net::ERR")
    unexpected = [one for one in errors if not any(part in one for part in expected)]
    assert not unexpected, unexpected


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[PageServer]:
    """A server of this test alone, without a session."""
    with PageServer(write_teams(tmp_path / "teams"), tmp_path / "server-home") as started:
        yield started


@pytest.fixture
def own_page(browser: Browser) -> Iterator[Page]:
    """The page of a reader who is not signed in."""
    context = reader(browser)
    with watched(context.new_page()) as opened:
        yield opened
    context.close()
