from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.entry_points import without_wings
from tests.teams.manifests.manifests import loaded, only_problem, problems

EXPERT = "agents: {rita: {model: local, expert: reviewer}}\nteams: {t: {members: [rita]}}\n"


def test_without_the_wing_an_expert_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # K-14
    with without_wings(monkeypatch, "experts"):
        problem = only_problem(tmp_path, EXPERT)
    assert "agent 'rita': no templates are installed" in problem.message
    assert problem.suggestion.startswith("experts need an optional part that is not installed (")
    assert "experts" in problem.suggestion.partition("(")[2]
    assert (problem.line, problem.column) == (1, 31)


def test_a_manifest_without_experts_does_not_import_the_package(tmp_path: Path) -> None:  # K-14
    (tmp_path / "t.yaml").write_text("agents: {a: {model: local}}\nteams: {t: {members: [a]}}\n", encoding="utf-8")
    code = "import sys, teamwright; teamwright.load_team(sys.argv[1]); print('teamwright.experts' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.experts
def test_the_mistakes_of_experts_are_reported_with_all_others(tmp_path: Path) -> None:  # A-01 M-03
    text = """\
        agents:
          rita: {model: local, expert: revewer}
          tom.x: {model: local, expert: {color: red, template: tester}}
          ada: {model: local, expert: {persna: Calm.}}
          max: {model: nowhere}
          eve: {model: local, expert: analyst, instructions: {template: "{{ task }}"}}
          kim: {model: local, expert: [a]}
        teams: {t: {members: [rita, ada, max]}}
    """
    found = {(one.line, one.message): one.suggestion for one in problems(tmp_path, text)}
    assert found == {
        (2, "agent 'rita': there is no expert template 'revewer'"): "did you mean 'reviewer'?",
        (3, "agent 'tom.x' can't be an expert of this name: use letters, digits, '_' and '-', at most 64"): "",
        (
            3,
            "agent 'tom.x': color: 'red' is no colour: write it as '#' and six hexadecimal digits, such as '#0f766e'",
        ): "",
        (4, "agent 'ada': 'persna' is not a field here"): "did you mean 'persona'?",
        (5, "agent 'max': there is no model 'nowhere'"): "write provider:name, local or scripted:FILE",
        (6, "agent 'eve': the instructions of an expert are a text"): "write them out",
        (7, "agent 'kim': 'expert' expects text or a mapping, found a list"): "",
    }


@pytest.mark.experts
def test_a_function_may_be_an_expert_and_reads_no_instructions(tmp_path: Path) -> None:
    text = "agents: {rita: {function: 'os:getcwd', expert: reviewer}}\nteams: {t: {members: [rita]}}\n"
    spec = loaded(tmp_path, text).manifest.agents["rita"]
    assert (spec.instructions, spec.description[:7]) == ("", "Reviews")
