"""Each example of a model agent runs offline, and prints what its section of docs/model-agents.md shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

PAGE = ROOT / "docs" / "model-agents.md"
FOLDER = ROOT / "examples" / "model_agents"
SHOWN = re.compile(r"^```console\n\$ python (examples/model_agents/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUTS = dict(SHOWN.findall(PAGE.read_text(encoding="utf-8")))


def test_the_page_shows_every_example_and_no_other() -> None:
    examples = [str(one.relative_to(ROOT)) for one in FOLDER.glob("*.py") if not one.name.startswith("_")]
    assert sorted(OUTPUTS) == sorted(examples), "files that examples import begin with an underscore"


@pytest.mark.parametrize("file", sorted(OUTPUTS))
def test_an_example_prints_what_the_page_shows(file: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_KEY")}
    environment |= {"TEAMWRIGHT_HOME": str(tmp_path), "NO_COLOR": "1", "COLUMNS": "100"}
    ran = subprocess.run(
        [sys.executable, ROOT / file],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, OUTPUTS[file]), ran.stderr
