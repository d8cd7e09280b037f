from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from teamwright.agents import evaluators as registry
from teamwright.agents.evaluators import UnloadedEvaluator, make_evaluator
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.functions.imports import code_not_loaded
from teamwright.errors import MissingExtra, UnknownName, UsageError
from teamwright.values.specs.evaluation import Criterion, Evaluate, Length, Risk
from teamwright.wings import Registered
from tests.kit.entry_points import without_wings
from tests.kit.evaluators import WordEvaluator, words
from tests.teams.manifests.manifests import only_problem


def register(monkeypatch: pytest.MonkeyPatch, **places: str) -> None:
    """Replace all registered evaluators."""
    points = Registered(EntryPoint(name, place, registry.GROUP) for name, place in places.items())
    monkeypatch.setattr(registry, "_registered", lambda: points)


def test_an_evaluator_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, words="tests.kit.evaluators:WordEvaluator")
    assert isinstance(make_evaluator(Evaluate(evaluator="words")), WordEvaluator)


def test_an_evaluator_is_found_by_its_import_path() -> None:
    assert isinstance(make_evaluator(words()), WordEvaluator)


def test_an_unknown_evaluator_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, words="tests.kit.evaluators:WordEvaluator")
    with pytest.raises(UnknownName, match="did you mean 'words'"):
        make_evaluator(Evaluate(evaluator="wrds"))


def test_an_evaluator_that_breaks_at_its_import_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, words="tests.kit.evaluators:Nobody")
    with pytest.raises(UsageError, match=r"'words' \(tests.kit.evaluators:Nobody\) can't be loaded"):
        make_evaluator(Evaluate(evaluator="words"))


def test_where_code_must_not_be_loaded_the_evaluator_of_others_is_a_placeholder() -> None:
    with code_not_loaded():
        assert isinstance(make_evaluator(words()), UnloadedEvaluator)


def test_without_the_wing_a_manifest_that_evaluates_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # K-14
    with without_wings(monkeypatch, "experts"):
        problem = only_problem(tmp_path, "agents: {a: {model: local, evaluate: {}}}\nteams: {t: {members: [a]}}\n")
        with pytest.raises(MissingExtra, match="'rubric' needs the extra 'experts'"):
            make_evaluator(Evaluate())
    assert "agent 'a': The evaluator 'rubric' needs the extra 'experts': run  " in problem.message


WITHOUT = """
import sys

sys.modules["teamwright.experts"] = None
from teamwright import FunctionAgent, Team, load_team, run_sync

print(run_sync(Team("t", members=[FunctionAgent("a", lambda text: "done")]), "go", journal="memory").status)
print(load_team(sys.argv[1]).name)
"""


def test_the_core_works_without_the_wing(tmp_path: Path) -> None:  # K-14
    file = tmp_path / "team.yaml"
    file.write_text("agents: {a: {model: local}}\nteams: {t: {members: [a]}}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(file)], capture_output=True, text=True, check=False, timeout=50
    )
    assert (done.stdout.split(), done.stderr) == (["completed", "t"], "")


@pytest.mark.parametrize(("risk", "given"), [("medium", 1), ("high", 0)])
def test_an_evaluator_of_others_gets_its_judges_only_where_they_are_asked(risk: Risk, given: int) -> None:
    asked = (Criterion(id="a", judge="Is it so?"), Criterion(id="b", length=Length(min=1)))
    declared = words().model_copy(update={"criteria": asked, "judge": "critic", "risk": risk})
    made = make_evaluator(declared, [FunctionAgent("critic", lambda text: text)])
    assert len(made.judges) == given
