"""Large runs in a browser, from an exported file: ten thousand messages, fifty experts at once, and one who left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from teamwright.server.page.export import PageBundle, html_file
from tests.server.page.browser.conftest import reader, watched
from tools import page as page_build


class EventLog:
    """Writes page events, as a projection does."""

    def __init__(self, experts: int) -> None:
        self.events: list[dict[str, Any]] = []
        self.experts = [
            {"id": f"expert-{n}", "name": f"expert-{n}", "colour": f"#{n * 5:02x}40a0", "avatar": f"{n}"}
            for n in range(experts)
        ]
        self.add("run", state="started", status="running", team="crowd", strategy="mesh", task="Talk.", reason="",
                 limits=None, forecast=None, origin=None, conversation="", output="", data=None, usage=None,
                 seconds=None, failure=None, warnings=[], waiting_for=[])  # fmt: skip

    def add(self, kind: str, key: str = "", expert: Any = None, **fields: Any) -> None:
        number = len(self.events) + 1
        head = {"number": number, "index": 0, "time": 1.7e9 + number, "scope": "crowd", "key": key, "expert": expert}
        self.events.append({"kind": kind, **head, **fields})

    def ask(self, turn: int) -> None:
        self.add("expert_step", f"turn-{turn}", self._expert(turn), purpose="work", member_kind="model", turn=turn,
                 attempt=1, step="", task="", asker="")  # fmt: skip

    def reply(self, turn: int, text: str) -> None:
        usage = {"requests": 1, "input_tokens": 5, "output_tokens": 5, "cached_tokens": 0, "reasoning_tokens": 0,
                 "tool_calls": 0, "total_tokens": 10, "usd": None, "saved_usd": None}  # fmt: skip
        self.add("expert_result", f"turn-{turn}", self._expert(turn), text=text, purpose="work", step="", data=None,
                 usage=usage, cost=None, seconds=0.1, failure=None, truncated=False, warnings=[], artifacts=[],
                 transfer_to="")  # fmt: skip

    def _expert(self, turn: int) -> dict[str, str]:
        return self.experts[turn % len(self.experts)]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Page]:
    context = reader(browser)
    with watched(context.new_page()) as page:
        yield page
    context.close()


def _open(page: Page, log: EventLog, folder: Path) -> None:
    page_build.build()
    data = json.dumps({"format": "teamwright.page/1", "run_id": "crowd-1", "events": log.events, "prompts": {}})
    file = folder / "run.html"
    file.write_text(html_file("Run crowd-1", data, PageBundle.load()), encoding="utf-8")
    page.goto(file.as_uri())


def test_ten_thousand_messages_are_drawn_in_part_and_scroll_smoothly(opened: Page, tmp_path: Path) -> None:
    log = EventLog(experts=8)
    for turn in range(10_000):
        log.ask(turn)
        log.reply(turn, f"Message number {turn}. " * (1 + turn % 7))
    _open(opened, log, tmp_path)
    feed = opened.get_by_role("feed")
    expect(feed).to_contain_text("Message number 9999.")
    assert feed.get_by_role("article").count() < 60
    slow = opened.evaluate(
        """async () => {
            const feed = document.querySelector('[role=feed]')
            const frame = () => new Promise(requestAnimationFrame)
            const times = []
            for (let step = 0; step < 60; step++) {
                const before = performance.now()
                feed.scrollTop -= 400
                await frame()
                times.push(performance.now() - before)
            }
            return times.sort((a, b) => a - b)[30]
        }"""
    )
    assert slow < 200, f"{slow:.0f} ms for the median frame"
    opened.get_by_role("slider").focus()
    opened.keyboard.press("Home")
    expect(feed).not_to_contain_text("Message number 9999.")


def test_fifty_experts_work_at_once_and_one_has_left(opened: Page, tmp_path: Path) -> None:
    log = EventLog(experts=50)
    for turn in range(50):
        log.ask(turn)
    log.add("expert_left", "", log.experts[7], reason="removed by ann")
    log.reply(7, "My last word.")
    _open(opened, log, tmp_path)
    experts = opened.get_by_role("complementary", name="Experts")
    expect(experts.get_by_text("working", exact=True)).to_have_count(49)
    expect(experts.get_by_role("button", name="expert-7 left")).to_be_visible()
    experts.get_by_role("button", name="expert-7 left").click()
    feed = opened.get_by_role("feed")
    expect(feed).to_contain_text("My last word.")
    expect(feed).to_contain_text("expert-7 leaves")
    expect(feed.get_by_role("article")).to_have_count(2)


WHERE = "document.activeElement.closest('[role=article]')?.dataset.index"


def test_a_long_conversation_is_one_stop_of_the_tab_key(opened: Page, tmp_path: Path) -> None:
    log = EventLog(experts=3)
    for turn in range(2_000):
        log.ask(turn)
        log.reply(turn, f"Message number {turn}. See [it](https://example.test/{turn}).")
    _open(opened, log, tmp_path)
    feed = opened.get_by_role("feed")
    expect(feed).to_contain_text("Message number 1999.")
    opened.get_by_label("Show all details").focus()
    opened.keyboard.press("Tab")
    expect(feed.locator("[role=article]:focus")).to_have_count(1)
    row = opened.evaluate(WHERE)
    for _ in range(3):
        opened.keyboard.press("k")  # another row has the controls now
    expect(feed.locator("[role=article]:focus")).to_have_attribute("data-index", str(int(row) - 3))
    inside: list[str] = []
    while (at := opened.evaluate(WHERE)) is not None:
        inside.append(at)
        opened.keyboard.press("Tab")
    assert set(inside) == {str(int(row) - 3)}
    assert 2 <= len(inside) <= 6, inside
    expect(opened.get_by_role("button", name="Steer")).to_be_focused()
    opened.keyboard.press("Shift+Tab")
    expect(feed.locator("[role=article]:focus")).to_have_attribute("data-index", str(int(row) - 3))  # the same row
    feed.get_by_role("button", name="Copy the link to this message").last.click()
    assert opened.evaluate(WHERE) is not None
    opened.keyboard.press("4")
    events = opened.get_by_role("list", name="Events")
    expect(events.get_by_role("button").first).to_be_attached()
    assert events.locator("button[tabindex='0']").count() == 1
    events.locator("button[tabindex='0']").focus()
    opened.keyboard.press("ArrowUp")
    assert events.locator("button:focus[tabindex='0']").count() == 1
