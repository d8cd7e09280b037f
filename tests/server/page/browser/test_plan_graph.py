"""The graph of a plan, in a browser: readable at any size, with groups, edges and milestones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.page.browser.kit import PageServer, violations_in_both_themes, write_teams

pytestmark = pytest.mark.experts
MEMBERS = ("kim", "ana", "ben", "cem")
LED = ("lead_subagent", "star_team", "mesh_team", "react", "collaborate", "live")
"""The presets whose lead gives the answer, after the steps."""
PRESETS = ("dag", "single", "expert", "dispatch", *LED)
GATE = {"criteria": [{"id": "said", "length": {"min": 1}}]}
STEPS: Sequence[Mapping[str, Any]] = (
    {"id": "reading", "agent": "ana", "task": "Read.", "evaluate": GATE},
    {"id": "facts", "agent": "ana", "task": "Collect.", "needs": ["reading"]},
    {"id": "risks", "agent": "ben", "task": "Weigh.", "needs": ["reading"]},
    {"id": "report", "agent": "cem", "task": "Write.", "needs": ["facts", "risks", "reading"], "evaluate": GATE},
)
SITES = [f"site_{number}" for number in range(1, 13)]
SURVEY: Sequence[Mapping[str, Any]] = (
    {"id": "start", "agent": "ana", "task": "Begin."},
    *({"id": site, "agent": "ben", "task": "Look.", "needs": ["start"]} for site in SITES),
    {"id": "report", "agent": "cem", "task": "Write.", "needs": SITES},
)
SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll('.canvas button *')]
    .filter((one) => one.offsetWidth && !one.closest('[aria-hidden], .unseen') && one.textContent.trim())
    .map((one) => parseFloat(getComputedStyle(one).fontSize) * one.getBoundingClientRect().width / one.offsetWidth))
"""


def manifest(name: str, preset: str, steps: Sequence[Mapping[str, Any]]) -> str:
    options = {"steps": steps} | ({"lead": "kim"} if preset in LED else {})
    return json.dumps(
        {
            "agents": {one: {"model": "scripted:replies.yaml"} for one in MEMBERS},
            "teams": {name: {"members": ["ana", "ben", "cem"], "strategy": preset, preset: options}},
        }
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("graphs")
    replies: list[dict[str, Any]] = [{"agent": one, "reply": "It is done.", "times": 99} for one in MEMBERS]
    decisions = [{"action": "work", "steps": [one]} for one in STEPS] + [{"action": "answer"}]
    decided = [{"agent": "kim", "reply": json.dumps(one), "times": 1} for one in decisions]
    manifests = {preset: manifest(preset, preset, STEPS) for preset in PRESETS if preset != "react"}
    manifests |= {"react": manifest("react", "react", []), "survey": manifest("survey", "dag", SURVEY)}
    scripts: dict[str, Any] = {name: {"rules": replies} for name in manifests}
    scripts["react"] = {"rules": decided + replies}
    with PageServer(write_teams(folder / "teams", manifests, scripts), folder / "home") as started:
        yield started


def graph(page: Page) -> Locator:
    return page.get_by_role("region", name="Graph of the plan")


def test_every_preset_of_the_plan_engine_shows_its_edges_and_milestones(server: PageServer, page: Page) -> None:
    runs = {preset: server.start_run(page, preset) for preset in PRESETS}
    for preset, run_id in runs.items():
        server.open(page, "runs", run_id, "plan")
        expect(page.get_by_text("4 of 4 steps done")).to_be_visible()
        answer = graph(page).get_by_role("button", name=re.compile("^Answer.*Done.*kim"))
        expect(answer).to_have_count(1 if preset in LED else 0)
        expect(graph(page).locator(".edge")).to_have_count(6 if preset in LED else 5)
        if preset != "react":  # the lead of a plan that is decided step by step sets no gates
            expect(graph(page).get_by_role("button", name=re.compile("Milestone"))).to_have_count(2)


def test_steps_stand_in_reading_order(server: PageServer, page: Page) -> None:
    server.show_run(page, "dag", view="plan")
    expect(graph(page).get_by_role("button")).to_have_text([re.compile(f"^{step['id']}") for step in STEPS])
    boxes = [one.bounding_box() for one in graph(page).get_by_role("button").all()]
    places = [(box["x"], box["y"]) for box in boxes if box is not None]
    assert sorted(places) == places


def test_many_parallel_steps_are_a_group_that_opens_without_becoming_small(server: PageServer, page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    server.show_run(page, "survey", view="plan")
    group = graph(page).get_by_role("button", name="12 parallel steps")
    expect(group).to_contain_text("Done 12")
    expect(graph(page).locator(".edge")).to_have_count(2)
    group.click()
    expect(graph(page).get_by_role("button", name=re.compile("^site_"))).to_have_count(12)
    expect(graph(page).locator(".edge")).to_have_count(24)
    assert page.evaluate(SMALLEST_TEXT) >= 12
    assert violations_in_both_themes(page) == []
    frame = graph(page).locator(".frame")
    assert frame.evaluate("one => one.scrollHeight > one.clientHeight")
    frame.evaluate("one => one.scrollTo(0, 0)")
    box = frame.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] + 100, steps=3)
    page.mouse.up()
    assert frame.evaluate("one => one.scrollTop") == 200
    graph(page).get_by_role("button", name="Show all").click()
    assert frame.evaluate("one => one.scrollHeight <= one.clientHeight")
    graph(page).get_by_role("button", name="Fold 12 parallel steps").click()
    expect(group).to_be_visible()


def test_a_graph_is_read_on_a_phone_by_panning(server: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    server.show_run(page, "survey", view="plan")
    graph(page).get_by_role("button", name="12 parallel steps").click()
    frame = graph(page).locator(".frame")
    assert frame.evaluate("one => one.scrollWidth > one.clientWidth")
    graph(page).get_by_role("button", name=re.compile("^site_12")).click()
    expect(page.get_by_role("region", name="site_12")).to_contain_text("start")
    assert page.evaluate(SMALLEST_TEXT) >= 12
    assert page.evaluate("document.querySelector('.view').scrollWidth") <= 390
