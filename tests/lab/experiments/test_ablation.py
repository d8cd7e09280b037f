from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
from pydantic import JsonValue

from teamwright.lab.experiments.ablation import without_parts
from teamwright.teams.team_loader import read_manifest, source_of, team_from_source
from teamwright.values.specs.manifest import Source
from tests.kit.terminal import Call, call

__all__ = ["call"]

TEAM = """\
agents: {counter: {model: m}, checker: {model: m}, praiser: {model: m}}
teams: {sums: {members: [praiser, counter, checker]}}
models: {m: {model: "scripted:replies.yaml", price: {input: 1, output: 1}}}
"""


def write(folder: Path, cases: int) -> Path:
    """A counter that is wrong in every fourth case, a member who does nothing for it, and one who fixes it."""
    rules = ["rules:"]
    lines = ["id,task,expected"]
    for number in range(cases):
        task, right = f"Case {number:02}x", f"sum {number:02}"
        wrong = number % 4 == 0
        rules.append(f'  - {{agent: counter, match: "{task}", reply: "{"wrong" if wrong else right}"}}')
        rules.append(f'  - {{agent: praiser, match: "{task}", reply: "What a lovely sum that is, and how well done."}}')
        rules.append(f'  - {{agent: checker, match: "{task}", reply: "{right}"}}')
        lines.append(f"c{number},{task},{right}")
    folder.mkdir()
    (folder / "team.yaml").write_text(TEAM)
    (folder / "replies.yaml").write_text("\n".join(rules) + "\n")
    (folder / "cases.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_each_member_is_left_out_by_a_fork_that_pays_only_for_what_follows(call: Call, tmp_path: Path) -> None:
    folder = write(tmp_path / "sums", 40)
    done = call("eval", folder, folder / "cases.csv", "--ablate", "--quiet")
    assert done.code == 0, done.err
    sentences = [line for line in done.out.splitlines() if re.match("without .*: ", line)]
    assert re.match(r"without praiser: \d+ % cheaper \[.*\], no loss found in 40 cases", sentences[0])
    assert re.match(r"without counter: \d+ % cheaper \[.*\], no loss found in 40 cases", sentences[1])
    assert re.match(r"without checker: \d+ % cheaper \[.*\], passes 25 points fewer", sentences[2])
    found = call("eval", folder, folder / "cases.csv", "--ablate", "--json").json
    fork = next(one["run_id"] for one in found["trials"] if one["variant"] == "without checker")
    events = call("runs", "export", fork).json["events"]
    own = [event for event in events if event["number"] > 1 and event["kind"] == "agent.called"]
    resumed = next(event["number"] for event in events if event["kind"] == "run.resumed")
    assert all(event["number"] < resumed for event in own)


PLANNED = """\
agents:
  a: {model: local, tools: [workspace], evaluate: {criteria: [{id: x, contains: x}]}}
  b: {model: local}
  c: {model: local}
teams:
  plan:
    strategy: dag
    members: [a, b, c]
    dag:
      steps:
        - {id: one, agent: a}
        - {id: two, agent: b, needs: [one]}
        - {id: three, agent: b, needs: [two]}
        - {id: four, agent: c, needs: [three, one]}
"""
GRAPH = """\
agents: {a: {model: local}, b: {model: local}, c: {model: local}}
teams:
  way:
    strategy: graph
    members: [a, b, c]
    max_turns: 5
    graph: {edges: [{from: a, to: b, when: "data.x == 1"}, {from: b, to: c}]}
"""


@pytest.mark.experts
def test_what_came_before_a_step_and_after_it_is_joined(tmp_path: Path) -> None:
    parts = {part.name: part.source for part in without_parts(source_of(read_manifest([_written(tmp_path, PLANNED)])))}
    assert {"a", "b", "c", "step two", "step three", "tool workspace of a", "review of a"} <= set(parts)
    needs = {name: {one["id"]: one.get("needs") for one in steps_of(parts[name])} for name in ("b", "step two")}
    assert needs["b"] == {"one": None, "four": ["one"]}
    assert needs["step two"] == {"one": None, "three": ["one"], "four": ["three", "one"]}
    assert parts["review of a"].manifest.agents["a"].evaluate is None
    for name, changed in parts.items():
        assert team_from_source(changed).name == "plan", name


def test_edges_go_on_to_where_a_member_led(tmp_path: Path) -> None:
    parts = {part.name: part.source for part in without_parts(source_of(read_manifest([_written(tmp_path, GRAPH)])))}
    assert parts["b"].manifest.teams["way"].options["edges"] == [{"from": "a", "to": "c", "when": "data.x == 1"}]
    assert [one for one in parts if team_from_source(parts[one])] == ["a", "b", "c"]


@pytest.mark.experts
def test_a_part_without_which_there_is_no_team_is_named(call: Call, tmp_path: Path) -> None:
    folder = _written(tmp_path, PLANNED.replace("agent: c,", 'agent: c, task: "{{ outputs.three }}",'))
    (folder / "cases.jsonl").write_text('{"task": "x"}\n')
    done = call("eval", folder, folder / "cases.jsonl", "--ablate", "--model", f"scripted:{_replies(folder)}")
    assert "not without b: " in done.err


def steps_of(source: Source) -> list[dict[str, JsonValue]]:
    return cast("list[dict[str, JsonValue]]", source.manifest.teams["plan"].options["steps"])


def _written(folder: Path, team: str) -> Path:
    (folder / "team.yaml").write_text(team)
    return folder


def _replies(folder: Path) -> Path:
    file = folder / "replies" / "any.yaml"
    file.parent.mkdir()
    file.write_text("rules: [{reply: x}]\n")
    return file
