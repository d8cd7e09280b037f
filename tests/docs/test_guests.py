"""The programs on the page about guests print what it shows.

One whose framework is not installed here runs in `.venv-peers`, which `make peers` sets up, and is skipped without it.
"""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

import pytest

from teamwright.testing import CallTools, ChatRequest, ModelServer, Say
from tests.docs.pages import ROOT, blocks
from tests.docs.test_migration import PEERS, QUIET, call, models_at, text_of

PROGRAMS = {one.about: one for one in blocks(ROOT / "docs" / "teams" / "guests.md") if one.mark == "side"}


def look_up_then_reply(request: ChatRequest) -> Say | CallTools:
    if "broken on arrival" in text_of(request):
        return Say(text="You get a new lamp.")
    return call("find_order", number=7)


def run_in_peers(folder: Path, environment: dict[str, str]) -> str:
    """Run the program of a framework that is not installed here."""
    done = subprocess.run(
        [PEERS, "program.py"],
        cwd=folder,
        env={**os.environ, **QUIET, **environment, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("framework", PROGRAMS)
@pytest.mark.timeout(120)
def test_the_program_of_a_framework_prints_what_the_page_shows(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    is_here = find_spec(framework) is not None
    if not is_here and not PEERS.exists():
        pytest.skip(f"{framework} is not installed; set it up with  make peers")
    (tmp_path / "program.py").write_text(PROGRAMS[framework].text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with ModelServer(look_up_then_reply) as server:
        environment = models_at(server.url, tmp_path)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        if is_here:
            run_path("program.py", run_name="__main__")
        printed = capsys.readouterr().out if is_here else run_in_peers(tmp_path, environment)
        assert server.count == 2
    assert printed == PROGRAMS[framework].shown
