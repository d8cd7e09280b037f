"""Set-up: quiet on success, the log on failure, and a browser for the tests of the page or a line without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tools import chromium, venv

PIP = """import sys
print("WARNING: Location 'file:///x/a/' is ignored: it is neither a file nor a directory.")
print("Collecting a==1.0")
print("Installing collected packages: a")
print("ERROR: no such hash" if sys.argv[1:] == ["fail"] else "Successfully installed a-1.0")
sys.exit(sys.argv[1:] == ["fail"])
"""


@pytest.fixture
def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a lock file of one package, and a pip that installs nothing."""
    (tmp_path / "lock.txt").write_text("a==1.0 \\\n    --hash=sha256:00\n")
    monkeypatch.setattr(venv, "ROOT", tmp_path)
    monkeypatch.setattr(venv, "create", lambda folder, log: None)
    return tmp_path


def _set_up(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    (folder / "pip.py").write_text(PIP)
    command = [sys.executable, "-c", f"import sys; sys.argv[1:] = {list(arguments)}; exec(open('pip.py').read())"]
    monkeypatch.setattr(venv, "pip_of", lambda folder: command)
    monkeypatch.setattr(sys, "argv", ["venv.py", ".venv-x", "lock.txt", "--no-project"])
    return venv.main()


def test_set_up_prints_its_stages_and_keeps_what_pip_says_in_a_log(
    fake_pip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _set_up(fake_pip, monkeypatch) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines() == [
        "setting up .venv-x: creating the environment",
        "setting up .venv-x: installing 1 package of lock.txt",
        "setting up .venv-x: ready",
    ]
    assert "WARNING: Location" in (fake_pip / "build" / "set-up.venv-x.log").read_text()


def test_set_up_that_fails_prints_the_end_of_its_log_without_the_noise(
    fake_pip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _set_up(fake_pip, monkeypatch, "fail") == 1
    printed = capsys.readouterr().err
    assert "ERROR: no such hash" in printed
    assert "is ignored" not in printed
    assert str(Path("build") / "set-up.venv-x.log") in printed


def test_each_lock_file_is_complete_so_pip_has_nothing_to_resolve(
    fake_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _set_up(fake_pip, monkeypatch) == 0
    assert "--no-deps --require-hashes" in (fake_pip / "build" / "set-up.venv-x.log").read_text()


def test_a_browser_is_installed_only_where_it_is_missing_and_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(chromium, "install", lambda: bool(calls.append("install")))
    monkeypatch.setattr(chromium, "may_install", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert chromium.main() == 0
    assert not calls
    monkeypatch.setattr(chromium, "may_install", lambda: True)
    assert chromium.main() == 0
    assert calls == ["install"]
    assert "chromium can't be installed here" in capsys.readouterr().out
    found = tmp_path / "chromium"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o700)
    assert chromium.main() == 0
    assert calls == ["install"]


def test_a_suite_without_a_browser_says_at_its_end_what_was_skipped_and_how_to_get_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "1",
        "-p",
        "no:cacheprovider",
        "tests/server/page/browser/test_home.py",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CHROMIUM"))}
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"tests of the page were skipped: {chromium.MISSING}" in done.stdout
