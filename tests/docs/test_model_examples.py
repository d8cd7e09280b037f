"""Each example of a model agent runs offline, and prints what its section of docs/teams/model-agents.md shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

from tests.paths import ROOT

PAGE = ROOT / "docs" / "teams" / "model-agents.md"
FOLDER = ROOT / "examples" / "model_agents"
SHOWN = re.compile(r"^```console\n\$ python (examples/model_agents/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUTS = dict(SHOWN.findall(PAGE.read_text(encoding="utf-8")))


def test_the_page_shows_every_example_and_no_other() -> None:
    examples = [str(one.relative_to(ROOT)) for one in FOLDER.glob("*.py") if not one.name.startswith("_")]
    assert sorted(OUTPUTS) == sorted(examples), "files that examples import begin with an underscore"


@pytest.mark.parametrize("file", sorted(OUTPUTS))
def test_an_example_prints_what_the_page_shows(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, because each program of its own would import the libraries again, for two seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    run_path(str(ROOT / file), run_name="__main__")
    assert capsys.readouterr().out == OUTPUTS[file]


def test_an_example_is_a_program(tmp_path: Path) -> None:
    file = "examples/model_agents/agent_tool.py"
    ran = subprocess.run(
        [sys.executable, ROOT / file], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, OUTPUTS[file]), ran.stderr
