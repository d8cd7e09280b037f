"""Calibrations as files: by name or path, read as they were written, and refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.errors import InvalidName, UnknownName, UsageError
from teamwright.lab.calibration.calibrate import Calibration, Fit
from teamwright.lab.calibration.profile_file import profile_names, profile_text, profiles_of, read_profile, save_profile
from teamwright.lab.simulation.agents import Learnt
from teamwright.lab.topology.profiles import TOPOLOGIES
from teamwright.values.specs.simulation import Data, Simulation

CALIBRATION = Calibration(
    runs=("r1", "r2"),
    average_tokens=1200,
    topologies={"star_team": Fit(runs=2, steps=20, execution=1.1)},
    learnt=Learnt(members={"a": Simulation(skill=0.5, latency=Data(data=(1.0, 2.0)))}),
)


def test_a_profile_is_read_as_it_was_kept(tmp_path: Path) -> None:
    save_profile(CALIBRATION)
    save_profile(CALIBRATION, "mine")
    file = tmp_path / "mine.json"
    file.write_text(profile_text(CALIBRATION), encoding="utf-8")
    assert read_profile("default") == read_profile("mine") == read_profile(str(file)) == CALIBRATION
    assert profile_names() == ["default", "mine"]


def test_without_a_profile_the_numbers_are_those_built_in() -> None:
    assert profiles_of(None) is TOPOLOGIES
    save_profile(CALIBRATION)
    assert profiles_of("default")["star_team"].execution == 1.1


def test_a_profile_that_is_not_there_is_reported_with_those_that_are(tmp_path: Path) -> None:
    save_profile(CALIBRATION, "mine")
    with pytest.raises(UnknownName, match=r"no profile 'mind'.*mine"):
        read_profile("mind")
    with pytest.raises(UsageError, match="create it with  teamwright lab calibrate --out"):
        read_profile(str(tmp_path / "no.json"))
    with pytest.raises(InvalidName):
        save_profile(CALIBRATION, "../mine")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", "is not a calibration"),
        ('{"topologies": {"ring": {"runs": 1, "steps": 1}}}', r"is not a calibration: topologies\.ring"),
        ('{"version": 99}', "newer version"),
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=words):
        read_profile(str(file))
