"""A run as one HTML file."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typing_extensions import override

from teamwright import Engine, FunctionAgent, Team
from teamwright.errors import UsageError
from teamwright.server.page.export import PageBundle, export_html, html_file
from teamwright.server.page.page_events import encode
from teamwright.server.page.projection import read_page_events

BUNDLE = PageBundle("console.log(1)", "body { margin: 0 }")
HOSTILE = "</script><script>alert(1)</script> <!-- <script> \u2028\u2029 ]]> &lt; \"' </style>"


class Elements(HTMLParser):
    """The scripts and styles of a file, as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "style", "meta"}:
            self.found.append((tag, dict(attrs), ""))

    @override
    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in {"script", "style"} and data.strip():
            tag, attributes, text = self.found[-1]
            self.found[-1] = tag, attributes, text + data

    def data(self) -> dict[str, object]:
        (text,) = (text for _, attributes, text in self.found if attributes.get("type") == "application/json")
        return json.loads(text)


async def exported(*, reply: str = "fine", task: str = "Go", prompts: bool = True) -> tuple[str, list[object]]:
    async with Engine("memory") as engine:
        team = Team("t", members=[FunctionAgent(name, lambda turn: reply) for name in "ab"])
        await engine.run(team, task, run_id="r")
        events = json.loads(encode(await read_page_events(engine.journal, "r")))
        return await export_html(engine, "r", BUNDLE, prompts=prompts), events


async def test_the_file_holds_the_page_events_prompts_and_figures_of_a_run() -> None:
    text, events = await exported()
    data = Elements(text).data()
    assert data["events"] == events
    assert data["run_id"] == "r"
    assert isinstance(data["run"], dict)
    assert data["run"]["status"] == "completed"
    assert isinstance(data["kpis"], dict)
    assert data["kpis"]["pass_rate"] == 1.0
    assert isinstance(data["prompts"], dict)
    assert [one["content"] for one in data["prompts"]["t/step-2"]["history"]] == ["fine"]
    smaller, _ = await exported(prompts=False)
    assert Elements(smaller).data()["prompts"] == {}


async def test_the_policy_allows_the_script_and_the_style_of_the_page_and_nothing_else() -> None:
    text, _ = await exported()
    found = Elements(text).found
    policy = next(str(one["content"]) for _, one, _ in found if one.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for element, directive in (("script", "script-src"), ("style", "style-src")):
        code = [inside for tag, attributes, inside in found if tag == element and "type" not in attributes]
        hashes = [f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in code]
        assert f"{directive} {' '.join(hashes)};" in policy
    assert not re.search(r"(?:src|href)=", text), "a file that needs no server loads nothing"


async def test_hostile_texts_stay_texts() -> None:
    text, _ = await exported(reply=HOSTILE, task=HOSTILE)
    elements = Elements(text)
    assert [(tag, attributes.get("type")) for tag, attributes, _ in elements.found if tag == "script"] == [
        ("script", "application/json"),
        ("script", None),
    ]
    assert "\u2028" not in text
    assert HOSTILE.rstrip() in json.dumps(elements.data(), ensure_ascii=False).replace('\\"', '"')


async def test_secrets_are_masked_in_the_file() -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    text, _ = await exported(reply=f"the key is {secret}", task=f"use {secret}")
    assert secret not in text
    assert "the key is" in text


def test_code_that_would_end_its_element_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "run.js").write_text('x = "</script><!--";\r\ny = 1')
    (tmp_path / "run.css").write_text("a { content: '</style>' }")
    bundle = PageBundle.load(tmp_path)
    found = Elements(html_file("<b>&", "{}", bundle)).found
    assert [inside for tag, attributes, inside in found if tag == "script" and "type" not in attributes] == [
        'x = "<\\/script><\\!--";\ny = 1'
    ]
    assert "<title>&lt;b&gt;&amp;</title>" in html_file("<b>&", "{}", bundle)


def test_a_missing_page_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make page"):
        PageBundle.load(tmp_path)


async def test_prompts_of_a_long_run_are_left_out_from_some_point_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teamwright.server.page.export.MOST_PROMPTS", 1)
    text, _ = await exported()
    prompts = Elements(text).data()["prompts"]
    assert isinstance(prompts, dict)
    assert [bool(one["problem"]) for one in prompts.values()] == [False, True, True]
    assert "runs show r t/step-2" in prompts["t/step-2"]["problem"]
