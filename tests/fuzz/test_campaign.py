"""A sample of the fuzz campaign, with a fixed seed; `make test-long` runs all of it. # S-01 S-03 S-08 D-02 D-05"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest
from pydantic import JsonValue

from teamwright.errors import UsageError
from tests.fuzz.campaign import replay, run_campaign
from tests.fuzz.case import Finding, Outcome, Violation, load
from tests.fuzz.targets.protocol import Target
from tests.fuzz.targets.registry import TARGETS
from tests.paths import ROOT
from tests.profiles import sampled

SEED = 20260801
SECONDS = sampled(4, 7)
QUICK = [target for target in TARGETS if target.name != "journals"]
"""Targets that are made at once; the other one has to make some runs first."""


@pytest.mark.timeout(600)
def test_no_input_breaks_a_promise(tmp_path: Path) -> None:
    """One process for all targets: it forks a child for each, and has imported everything once."""
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", str(SECONDS), "--json"]
    command += ["--seed", str(SEED), "--workers", "1", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=580, check=False)
    found = [_detail(file) for file in tmp_path.glob("*.json")]
    assert done.returncode == 0, "\n\n".join([done.stderr, *found])
    counted = json.loads(done.stdout)["targets"]
    assert [target.name for target in TARGETS if not counted[target.name]["cases"]] == []


def _detail(file: Path) -> str:
    return str(json.loads(file.read_text())["detail"])[-2000:]


class Trap:
    """A target that breaks in every way there is, as its input says."""

    name: ClassVar[str] = "trap"
    weight: ClassVar[float] = 1.0
    seconds: ClassVar[float] = 0.5
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None: ...

    def corpus(self) -> list[JsonValue]:
        return ["fine", "refused"]

    def draw(self, random: Random) -> JsonValue:
        return random.choice(("fine", "refused", "breaks", "raises", "hangs"))

    def run(self, payload: JsonValue) -> Outcome:
        match payload:
            case "refused":
                return "refused"
            case "breaks":
                raise Violation("odd", "it is odd")
            case "raises":
                raise UsageError("not for you")
            case "hangs":
                while True:
                    pass
            case _:
                return "accepted"

    def close(self) -> None: ...


def test_a_campaign_finds_what_breaks_raises_and_hangs_and_continues(tmp_path: Path) -> None:
    told: list[str] = []
    report = run_campaign([Trap], seconds=30, seed=1, workers=2, cases=12, folder=tmp_path, tell=told.append)
    tally = report.tallies["trap"]
    assert {finding.kind for finding in report.findings} == {"odd", "traceback", "hang"}
    assert tally.cases == 12
    assert tally.accepted + tally.refused + tally.findings == 12
    assert any("FINDING trap" in line for line in told)
    assert "trap" in report.table()
    assert json.loads(json.dumps(report.to_json()))["targets"]["trap"]["cases"] == 12


def test_a_saved_case_is_replayed(tmp_path: Path) -> None:
    report = run_campaign([Trap], seconds=30, seed=1, workers=1, cases=12, folder=tmp_path)
    file = next(file for file in report.saved if "odd" in file.name)
    found = replay(load(file), [Trap], tmp_path)
    assert isinstance(found, Finding)
    assert found.kind == "odd"


@pytest.mark.parametrize("target", QUICK, ids=[target.name for target in QUICK])
def test_the_same_seed_draws_the_same_cases(target: type[Target], tmp_path: Path) -> None:
    one, other = (target(_folder(tmp_path, name)) for name in ("one", "other"))
    for number in range(20):
        drawn = [json.dumps(made.draw(Random(f"7/{number}"))) for made in (one, other)]
        assert drawn[0] == drawn[1]
    one.close()
    other.close()


def _folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made
