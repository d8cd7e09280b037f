"""A sample of the soak with a fixed seed, over a few teams; `make test-long` runs all of it. # D-01 D-07"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.strategies.registry import BUILT_IN_STRATEGIES
from tests.paths import ROOT
from tests.profiles import sampled
from tests.soak.teams import TEAMS

SECONDS = sampled(4, 8)
SAMPLE = ("fan_out", "nested", "approvals", "dag", "models", "sequential")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.timeout(240)
def test_runs_that_are_disturbed_keep_the_laws(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", str(SECONDS / 60), "--seed", "20260801", "--json"]
    command += ["--width", "2", "--folder", str(tmp_path), *(word for name in SAMPLE for word in ("--team", name))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["runs"]


def test_every_strategy_has_a_team() -> None:
    assert {team.strategy for team in TEAMS} == set(BUILT_IN_STRATEGIES)
