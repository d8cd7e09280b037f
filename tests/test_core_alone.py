"""Without a wing, and without all of them, the rest works. `make test-long` runs all of its tests so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.wings import find_wings
from tests.absent_wings import WINGS, needed_wings
from tests.core_alone import CHOICES, copy_without, main, run_tests_without
from tests.paths import ROOT

SAMPLE = (
    "tests/agents/test_evaluators_registry.py", "tests/teams/manifests/test_evaluation_checks.py",
    "tests/teams/manifests/test_manifest_loader_experts.py",
    "tests/cli/test_new.py::test_a_new_team_runs_at_once_with_the_command_it_says",
)  # fmt: skip
REFUSED = """
import sys
from teamwright.cli.main import main

print([main(line.split()) for line in sys.argv[1:]])
"""
OPTIONS = {"cluster": ["--redis redis://h runs list"], "lab": ["run team.yaml --topology auto"]}
"""Command lines of the core with options that a wing adds."""
EVERY_MODULE = """
import importlib, pkgutil, teamwright

FOR_FRAMEWORKS = ("agent_framework_client", "crewai_llm", "langchain_chat_model", "openai_agents_model")
for one in pkgutil.walk_packages(teamwright.__path__, "teamwright."):
    if not one.name.endswith("__main__"):
        try:
            importlib.import_module(one.name)
        except ModuleNotFoundError as error:  # models for frameworks that are not installed with us
            if one.name.rpartition(".")[2] not in FOR_FRAMEWORKS or error.name.startswith("teamwright"):
                raise
from teamwright.agents.evaluators import evaluator_names
from teamwright.strategies.registry import BUILT_IN_STRATEGIES, strategy_names
print(teamwright.__file__, evaluator_names(), {*strategy_names()} == {*BUILT_IN_STRATEGIES})
"""


@pytest.mark.timeout(300)
def test_a_sample_of_the_tests_passes_without_any_wing() -> None:  # K-14
    assert run_tests_without(WINGS, ["-q", "-p", "no:xdist", *SAMPLE]) == 0


@pytest.mark.timeout(120)
def test_without_a_wing_its_commands_and_options_are_refused_in_words_that_name_it(tmp_path: Path) -> None:  # K-14
    environment = copy_without((), tmp_path, ["src"])
    for wing in find_wings():
        folder = tmp_path / "src" / "teamwright" / wing.name
        shutil.move(folder, tmp_path / wing.name)
        lines = [*wing.commands, *OPTIONS.get(wing.name, [])]
        done = subprocess.run(
            [sys.executable, "-c", REFUSED, *lines],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=50,
        )  # fmt: skip
        assert done.stdout == f"{[2] * len(lines)}\n", done.stderr
        assert done.stderr.count(f"not installed ({wing.name}); add it with, for example,  ") == len(lines), done.stderr
        shutil.move(tmp_path / wing.name, folder)


def test_every_module_of_the_core_can_be_imported_without_any_wing(tmp_path: Path) -> None:  # K-14
    environment = copy_without(WINGS, tmp_path, ["src"])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVERY_MODULE],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    file, *found = done.stdout.split()
    assert (found, done.stderr) == (["[]", "True"], "")
    assert Path(file).is_relative_to(tmp_path)


def test_each_wing_is_removed_in_turn_and_then_all() -> None:
    assert CHOICES == (("cluster",), ("experts",), ("lab",), ("server",), ("cluster", "experts", "lab", "server"))


def test_a_wing_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--without", "lab,labs", "-q"])
    assert "there is no wing labs; the wings are cluster, experts, lab, server" in capsys.readouterr().err


def test_a_test_file_needs_the_wings_that_it_imports_itself_or_through_others() -> None:
    assert needed_wings(ROOT / "tests" / "kit" / "server.py") == {"server"}
    assert needed_wings(ROOT / "tests" / "test_run_page.py") >= {"server"}
    assert needed_wings(ROOT / "tests" / "test_errors.py") == frozenset()
