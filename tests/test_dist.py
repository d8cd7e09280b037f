"""The distributions: the sdist builds the same wheel, which holds the page; the trials of `make dist-check` work."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.paths import ROOT
from tools import dist

PROGRAMS = Path(sys.executable).parent


@pytest.mark.timeout(300)
def test_the_sdist_builds_the_same_wheel_with_the_page(tmp_path: Path) -> None:
    sdist, wheel = dist.build(tmp_path / "dist")
    names = ZipFile(wheel).namelist()
    static = "teamwright/server/page/static/"
    assert {static + "index.html", static + "export/run.js", static + "export/run.css"} <= set(names)
    assert not any("node_modules" in name for name in names)
    assert dist.differences(sdist, wheel, tmp_path / "unpacked") == []


def test_every_extra_is_imported() -> None:
    assert dist.IMPORTED.keys() == dist.declared_extras()
    named = [one for modules in dist.IMPORTED.values() for one in modules.split(", ")]
    ours = [one for one in named if one.startswith("teamwright.")]
    assert [one for one in ours if not (ROOT / "src" / f"{one.replace('.', '/')}.py").exists()] == []


def test_the_team_of_the_check_is_killed_and_resumed(tmp_path: Path) -> None:
    dist.try_run(PROGRAMS, tmp_path / "tried")


@pytest.mark.server
def test_the_page_of_the_check_is_served(tmp_path: Path) -> None:
    dist.try_page(PROGRAMS, tmp_path)
