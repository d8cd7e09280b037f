"""Teams drawn for terminals and as Mermaid, by `show`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import JsonValue
from rich.cells import cell_len

from teamwright import FunctionAgent, Limits, ScriptedAgent, Team, load_team
from teamwright.cli.main import main
from teamwright.cli.terminal.team_picture import draw_picture, draw_team, mermaid, picture_of
from teamwright.strategies import Outcome
from teamwright.strategies.protocol import Arrow, Diagram, Members, Node, Settings, Strategy
from teamwright.strategies.registry import BUILT_IN_STRATEGIES
from tests.kit.terminal import Call
from tests.paths import EXAMPLES

ID = r"[ngt]\d+(?:_\d+)?"
TEXT = r'"(?:[^"#&<>`|]|#(?:\d+|quot|amp|lt|gt);|<br/>)*"'
NODES = rf"{ID}(?: & {ID})*"
LINES = re.compile(
    rf"flowchart TD|subgraph {ID}\[{TEXT}\]|end|{ID}(?:\[{TEXT}\]|\({TEXT}\)|\(\[{TEXT}\]\)|\[\[{TEXT}\]\])"
    rf"|{NODES} -->(?:\|{TEXT}\|)? {NODES}"
)


def agents(*names: str) -> list[FunctionAgent]:
    return [FunctionAgent(name, lambda turn: "x") for name in names]


def check_mermaid(text: str) -> None:
    """Every line is one that Mermaid knows, boxes are closed, and arrows lead to what is there."""
    lines = [line.strip() for line in text.splitlines()]
    assert [line for line in lines if not LINES.fullmatch(line)] == []
    assert lines.count("end") == len([line for line in lines if line.startswith("subgraph")])
    made = {found[1] for line in lines if " -->" not in line and (found := re.match(rf"(?:subgraph )?({ID})", line))}
    used = {one for line in lines if " -->" in line for one in re.findall(ID, re.sub(TEXT, "", line))}
    assert used <= made
    assert len([line for line in lines if "-->" in line]) <= 500


class Odd(Strategy):
    """A third-party strategy that draws arbitrary nodes."""

    name, version = "odd", 1

    def __init__(self, diagram: Diagram) -> None:
        self._sketch = diagram

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        return self._sketch

    async def run(self, task: object, members: Members, ctx: object) -> Outcome:
        return Outcome()


@pytest.mark.parametrize("name", [*BUILT_IN_STRATEGIES, "improvement", "transformation", "code_review", "annotation"])
def test_every_example_can_be_drawn_in_eighty_columns_and_as_mermaid(name: str) -> None:
    team = load_team(EXAMPLES / name)
    picture = picture_of(team)
    text = draw_picture(picture)
    assert max(map(cell_len, text.splitlines())) <= 80
    for agent in (*team.members, *team.helpers):
        assert agent.name in text
    check_mermaid(mermaid(picture))


def test_a_line_of_members_is_a_line(call: Call) -> None:
    lines = call("show", EXAMPLES / "refactoring").out.splitlines()[2:]
    assert [line.split()[:2] for line in lines] == [
        ["●", "code-analyzer"], ["↓"], ["●", "refactoring-planner"], ["↓"], ["●", "code-generator"], ["↓"],
        ["●", "test-generator"], ["↓"], ["●", "validator"],
    ]  # fmt: skip


def test_conditions_and_ways_back_are_listed(call: Call) -> None:
    text = call("show", EXAMPLES / "graph").out
    assert "  ├→ inspector              when data.kind == 'health'\n  └→ baker\n" in text
    assert "  ├→ writer                 when data.marks < 8" in text


def test_concurrent_members_are_drawn_together() -> None:
    text = draw_team(load_team(EXAMPLES / "transformation"))
    assert "  ┌ ● code-analyzer" in text
    assert "  └ ● security-scanner" in text
    assert "  ⇅ delegates to\n  ┌ ● security" in draw_team(load_team(EXAMPLES / "code_review"))


def test_a_team_within_a_team_is_drawn_inside_it_and_once() -> None:
    inner = Team("inner", members=agents("a", "b"), limits=Limits(tokens=500))
    picture = picture_of(Team("outer", members=[inner, *agents("c"), inner]))
    assert draw_picture(picture).splitlines() == [
        "■ outer                   sequential",
        "  ■ inner                   sequential · at most 500 tokens",
        "  │   ● a                       function",
        "  │   ↓",
        "  │   ● b                       function",
        "  ↓",
        "  ● c                       function",
        "  ↓",
        "  ■ inner                   sequential · drawn above",
    ]
    chart = mermaid(picture)
    check_mermaid(chart)
    assert '[["inner"]]' in chart


@pytest.mark.parametrize("strategy", ["sequential", "round_robin", "fan_out", "hierarchical", "selector", "undrawn"])
def test_a_team_of_fifty_stays_readable(strategy: str) -> None:
    members, helpers = agents(*(f"reader-{number:02}" for number in range(50))), agents("lead")
    choices: dict[str, dict[str, JsonValue]] = {
        "fan_out": {"splitter": "lead", "answer": "lead"},
        "hierarchical": {"lead": "lead"},
        "selector": {"agent": "lead"},
    }
    options = choices.get(strategy)
    named = Odd(Diagram(nodes=tuple(Node(id=m.name, agent=m.name) for m in members)))
    turns = 3 if strategy in {"round_robin", "selector"} else None
    team = Team(
        "wide", members=members, helpers=helpers if options else (), max_turns=turns, options=options,
        strategy=named if strategy == "undrawn" else strategy,
    )  # fmt: skip
    text = draw_team(team)
    lines = text.splitlines()
    assert len(lines) <= 55
    assert max(map(cell_len, lines)) <= 80
    assert all(member.name in text for member in members)
    check_mermaid(mermaid(picture_of(team)))


def test_a_thousand_workers_are_counted_and_mermaid_keeps_to_its_limits() -> None:
    members = agents(*(f"w{number}" for number in range(1000)))
    options: dict[str, JsonValue] = {"chunks": [1], "answer": "sum"}
    picture = picture_of(Team("t", members=members, helpers=agents("sum"), strategy="fan_out", options=options))
    text = draw_picture(picture)
    assert "┌ 1000 × ●" in text
    assert "… and 880 more" in text
    chart = mermaid(picture)
    check_mermaid(chart)
    assert len(chart) < 50_000


def test_whatever_a_strategy_writes_the_drawing_holds_it() -> None:
    wild = 'say "hi" <b>#1</b> `x` a|b & \x1b[31mred\n\u202eends ' + "long " * 80 + "漢字" * 60
    nodes = (Node(id="x", agent="a", label=wild, about=wild), Node(id="y", label="end"), Node(id="z", agent="gone"))
    arrows = (Arrow(source="x", to="x", label=wild), Arrow(source="y", to="x"), Arrow(source="x", to="y", label="1"))
    picture = picture_of(Team("t", members=agents("a"), strategy=Odd(Diagram(nodes=nodes, arrows=arrows))))
    check_mermaid(mermaid(picture))
    assert "\x1b" not in draw_picture(picture)


def test_show_gives_text_mermaid_or_json(call: Call, tmp_path: Path) -> None:
    manifest = EXAMPLES / "dag" / "team.yaml"
    assert call("show", manifest).out.startswith("■ fair")
    assert call("show", manifest, "--out", tmp_path / "team.mmd").out == ""
    chart = (tmp_path / "team.mmd").read_text()
    assert chart.startswith("flowchart TD\n")
    told = call("show", manifest, "--json").json
    assert told.keys() >= {"team", "strategy", "nodes", "arrows", "agents", "teams", "mermaid"}
    assert told["mermaid"] + "\n" == chart
    assert (tmp_path / "team.mmd").read_text() == chart


def test_one_of_several_teams_is_drawn_by_name(call: Call) -> None:
    ark = EXAMPLES / "ark"
    files = (ark / "nested.yaml", "--with", ark / "graph.yaml", "--with", ark / "agents.yaml")
    scripted = ("--model", f"scripted:{ark / 'replies.yaml'}")
    assert "  │   ● researcher" in call("show", *files, *scripted, "--team", "nested-team").out
    assert call("show", *files, *scripted, "--team", "graph-team").out.startswith("■ graph-team")
    assert call("show", *files, *scripted, "--team", "graf-team").code == 2


def test_limits_of_every_level_are_drawn(call: Call, team: Path) -> None:
    text = (team / "team.yaml").read_text()
    bounds = "limits: {usd: 0.5, message: {tokens: 900, seconds: 20}}"
    (team / "team.yaml").write_text(text.replace("members: [writer, critic]", f"members: [writer, critic], {bounds}"))
    out = call("show", team).out
    for words in ("at most 0.5 usd", "each request at most 900 tokens", "each request at most 20 seconds"):
        assert words in " ".join(out.split())


def test_teams_that_share_teams_are_drawn_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # S-01
    """There are twice as many paths with each layer, and 2^60 in all."""
    layers = "".join(
        f"  t{n}: {{members: [t{n + 1}, u{n + 1}]}}\n  u{n}: {{members: [t{n + 1}, u{n + 1}]}}\n" for n in range(60)
    )
    file = tmp_path / "team.yaml"
    agents = "agents: {a: {model: local}, b: {model: local}}\n"
    file.write_text(f"{agents}teams:\n{layers}  t60: {{members: [a]}}\n  u60: {{members: [b]}}\n")
    for more in ([], ["--json"], ["--out", str(tmp_path / "team.mmd")]):
        assert main(["show", str(file), "--team", "t0", *more]) == 0
        assert len(capsys.readouterr().out) < 10_000_000
    assert main(["validate", str(file)]) == 0


def test_agents_that_are_asked_as_tools_are_drawn() -> None:
    asked = ScriptedAgent("archive", [], description="Keeps letters")
    tasters = Team("tasters", members=agents("taster"))
    historian = ScriptedAgent("historian", [], tools=[asked])
    writer = ScriptedAgent("writer", [], tools=[historian, tasters])
    picture = picture_of(Team("tea", members=[writer, *agents("editor")]))
    drawn = draw_picture(picture)
    assert [" ".join(line.split()) for line in drawn.splitlines()] == [
        "■ tea sequential",
        "● writer scripted",
        "├→ editor",
        "└→ historian, tasters asks as a tool",
        "● editor function",
        "○ historian scripted",
        "└→ archive asks as a tool",
        "■ tasters sequential",
        "│ ● taster function",
        "○ archive scripted · Keeps letters",
    ]
    check_mermaid(mermaid(picture))
    assert '-->|"asks as a tool"|' in mermaid(picture)


def test_show_lists_which_variable_goes_where(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    file.write_text("agents: {a: {model: {url: 'http://other.example/v1', name: x, api_key: '${MY_KEY}'}}}")
    assert "variable: MY_KEY goes to 'other.example' (agents.a.model.api_key)" in call("show", file).err
    [one] = call("show", file, "--json").json["variables"]
    assert one == {"variable": "MY_KEY", "to": "'other.example'", "by": "agents.a.model.api_key"}
