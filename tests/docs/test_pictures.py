"""The pictures of the documentation are up to date and legible."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from teamwright.events import AgentCalled
from tests.docs.pages import PAGES
from tests.paths import ROOT
from tools.pictures import layers, replay
from tools.pictures.__main__ import FOLDER, draw_all

PICTURES = sorted(FOLDER.glob("*.svg"))
TEXT = "{http://www.w3.org/2000/svg}text"


async def test_every_picture_is_as_the_code_draws_it() -> None:
    drawn = await draw_all()
    assert {file.name for file in PICTURES} == drawn.keys()
    stale = [file.name for file in PICTURES if file.read_text(encoding="utf-8") != drawn[file.name]]
    assert not stale, "draw them again with  make pictures"


def test_every_layer_is_in_the_picture() -> None:
    names = {name for layer in layers.read_layers(ROOT / "pyproject.toml") for name in layer}
    assert names == layers.PURPOSE.keys()


def test_the_layers_on_the_page_for_contributors_are_those_of_the_contract() -> None:
    section = (ROOT / "AGENTS.md").read_text(encoding="utf-8").partition("## Layers")[2].partition("\n## ")[0]
    rows = re.findall(r"^ {4}(\w+(?: \| \w+)*) ", section, flags=re.MULTILINE)
    assert [row.split(" | ") for row in rows] == layers.read_layers(ROOT / "pyproject.toml")


async def test_a_resumed_run_delivers_in_the_recorded_order_and_makes_only_the_call_in_doubt() -> None:
    recording = await replay.record()
    assert recording.second.calls == ["wind/check"]
    facts = {event.key: event.fact for event in recording.events if isinstance(event.fact, AgentCalled)}
    assert facts.keys() == {"crew/wind/check/call"}
    assert all(fact.in_doubt for fact in facts.values())
    assert recording.second.delivered[: len(recording.first.delivered)] == recording.first.delivered


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.name)
def test_a_picture_can_be_read(file: object) -> None:
    root = ElementTree.parse(str(file)).getroot()
    texts = list(root.iter(TEXT))
    assert min(float(one.attrib["font-size"]) for one in texts) >= 12
    areas = {f"{index}: {one.text}": area(one) for index, one in enumerate(texts)}
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert not [name for name, (left, _, right, low) in areas.items() if left < 0 or right > width or low > height]
    assert not [(one, two) for one, two in combinations(areas, 2) if overlap(areas[one], areas[two])]


def area(element: ElementTree.Element) -> tuple[float, float, float, float]:
    """Return the approximate box of a line of text: left, top, right, bottom."""
    size, x, y = (float(element.attrib[name]) for name in ("font-size", "x", "y"))
    wide = len(element.text or "") * size * (0.61 if "font-family" in element.attrib else 0.53)
    left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[element.attrib["text-anchor"]]
    return left, y - size * 0.8, left + wide, y + size * 0.2


def overlap(one: tuple[float, ...], two: tuple[float, ...]) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def test_every_picture_is_on_a_page_with_an_alternative_text() -> None:
    texts = [page.read_text(encoding="utf-8") for page in (*PAGES, ROOT / "AGENTS.md")]
    for file in PICTURES:
        assert any(re.search(rf"!\[[^\]]{{20,}}\]\([\w./]*pictures/{file.name}\)", text) for text in texts), file.name
