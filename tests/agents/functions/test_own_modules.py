"""Modules beside a manifest: found first, by its own code alone, and never mixed with those of another manifest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright import Engine, load_team, run_sync
from teamwright.agents.functions.own_modules import import_own, modules_of, portable
from teamwright.errors import ManifestError, UsageError
from teamwright.manifests.load import load

MANIFEST = "agents: {a: {function: 'own_tools:answer'}}\n"


@pytest.fixture(autouse=True)
def _forgotten_modules() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def folder_with(folder: Path, **files: str) -> Path:
    """Write a manifest and these modules into a folder, and return the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "team.yaml").write_text(MANIFEST)
    return folder / "team.yaml"


def says(text: str) -> str:
    return f"def answer(turn): return {text!r}\n"


def test_a_team_finds_the_modules_beside_its_manifest(tmp_path: Path) -> None:
    code, path = "from own_words import WORD\ndef answer(turn): return WORD\n", list(sys.path)
    file = folder_with(tmp_path, own_tools=code, own_words="WORD = 'hi'")
    assert run_sync(load_team(file), "go", journal="memory").output == "hi"
    assert sys.path == path


def test_a_module_beside_the_manifest_wins_over_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path / "installed", own_tools=says("installed"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "installed"), *sys.path])
    file = folder_with(tmp_path / "team", own_tools=says("own"))
    assert run_sync(load_team(file), "go", journal="memory").output == "own"
    assert __import__("own_tools").answer(None) == "installed"
    assert run_sync(load_team(file), "go", journal="memory").output == "own"


def test_a_module_that_the_process_uses_stays_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_with(tmp_path / "installed", own_tools=says("installed"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "installed"), *sys.path])
    used = __import__("own_tools")
    load_team(folder_with(tmp_path / "team", own_tools=says("own")))
    assert sys.modules["own_tools"] is used


def test_two_manifests_may_have_modules_of_the_same_name(tmp_path: Path) -> None:
    tools = "import own_words\ndef answer(turn): return own_words.WORD\n"
    files = [folder_with(tmp_path / one, own_tools=tools, own_words=f"WORD = {one!r}") for one in ("x", "y")]
    teams = [load_team(file) for file in (*files, *files)]
    assert [run_sync(team, "go", journal="memory").output for team in teams] == ["x", "y", "x", "y"]


def test_a_module_is_the_one_that_a_program_beside_the_manifest_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder_with(tmp_path, own_tools="SEEN = []\ndef answer(turn): SEEN.append(1); return 'ok'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    run_sync(load_team(file), "go", journal="memory")
    assert __import__("own_tools").SEEN == [1]


def test_nothing_else_in_the_process_finds_them(tmp_path: Path) -> None:
    load_team(folder_with(tmp_path, own_tools=says("own"), own_other="X = 1"))
    with pytest.raises(ModuleNotFoundError):
        __import__("own_other")


def test_an_import_inside_a_function_finds_them_while_the_team_runs(tmp_path: Path) -> None:
    code = "def answer(turn):\n    from own_late import WORD\n    return WORD\n"
    team = load_team(folder_with(tmp_path, own_tools=code, own_late="WORD = 'late'"))
    assert run_sync(team, "go", journal="memory").output == "late"


def test_packages_and_folders_without_init_are_found_too(tmp_path: Path) -> None:
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").write_text("")
    (tmp_path / "own_package" / "words.py").write_text("WORD = 'deep'")
    (tmp_path / "own_space").mkdir()
    (tmp_path / "own_space" / "more.py").write_text("from own_package.words import WORD")
    file = folder_with(tmp_path, own_tools="from own_space.more import WORD\ndef answer(turn): return WORD\n")
    assert run_sync(load_team(file), "go", journal="memory").output == "deep"


def test_a_function_in_another_process_is_found_there(tmp_path: Path) -> None:
    file = folder_with(tmp_path, own_tools=says("from afar"))
    file.write_text("agents: {a: {function: 'own_tools:answer', isolate: process}}")
    result = run_sync(load_team(file), "go", journal="memory")
    assert result.output == "from afar", result


def test_a_function_of_an_installed_module_stays_itself() -> None:
    with modules_of(Path(__file__).parent / "nowhere"):
        assert portable(folder_with) is folder_with


def test_a_module_of_the_standard_library_is_not_replaced(tmp_path: Path) -> None:
    file = folder_with(tmp_path, calendar=says("own"))
    file.write_text("agents: {a: {function: 'calendar:answer'}}")
    with pytest.raises(UsageError, match=r"'calendar'.*rename the file"):
        load_team(file)
    with modules_of(tmp_path):
        assert hasattr(import_own("json"), "loads")


def test_a_thorough_check_finds_them_too(tmp_path: Path) -> None:
    file = folder_with(tmp_path, own_tools="def other(turn): return 1")
    with pytest.raises(ManifestError, match=r"no 'answer' in 'own_tools:answer'"):
        load([file], thorough=True)


async def test_a_run_is_resumed_with_the_modules_beside_its_manifest(tmp_path: Path) -> None:
    code = "def answer(turn):\n    from own_late import WORD\n    return WORD\n"
    file = folder_with(tmp_path / "team", own_tools=code)
    async with Engine(tmp_path / "j.db") as engine:
        failed = await engine.run(load_team(file), "go", run_id="r")
        assert failed.status == "failed"
        (tmp_path / "team" / "own_late.py").write_text("WORD = 'mended'")
        assert (await engine.fork("r", retry=True)).output == "mended"


def test_a_program_elsewhere_loads_a_team_and_its_modules(tmp_path: Path) -> None:
    file = folder_with(tmp_path / "team", own_tools=says("own"))
    program = f"from teamwright import *; print(run_sync(load_team({str(file)!r}), 'x', journal='memory').output)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "own\n", done.stderr
