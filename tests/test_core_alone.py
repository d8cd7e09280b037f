"""Without the optional package, the core works and its tests pass. `make test-long` runs all of them so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core_alone import OPTIONAL, copy_core, run_core_tests

SAMPLE = (
    "tests/agents/evaluators", "tests/teams/manifests/checks/test_evaluations.py",
    "tests/teams/manifests/test_load_experts.py", "tests/cli/experts",
)  # fmt: skip
EVERY_MODULE = """
import importlib, pkgutil, teamwright

for one in pkgutil.walk_packages(teamwright.__path__, "teamwright."):
    if not one.name.endswith("__main__"):
        importlib.import_module(one.name)
from teamwright.agents.evaluator_registry import evaluator_names
from teamwright.strategies.registry import strategy_names
print(teamwright.__file__, evaluator_names(), "expert" in strategy_names())
"""


@pytest.mark.timeout(300)
def test_a_sample_of_the_core_tests_passes_with_the_folder_deleted() -> None:  # K-14
    assert run_core_tests(["-q", "-p", "no:xdist", *SAMPLE]) == 0


def test_every_module_of_the_core_can_be_imported_with_the_folder_deleted(tmp_path: Path) -> None:  # K-14
    copy_core(tmp_path)
    assert not any((tmp_path / part).exists() for part in OPTIONAL)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVERY_MODULE],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    file, *found = done.stdout.split()
    assert (found, done.stderr) == (["[]", "False"], "")
    assert Path(file).is_relative_to(tmp_path)
