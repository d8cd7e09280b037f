"""Modules beside a manifest: found first, by its own code alone, and never mixed with those of another manifest."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

from teamwright import Engine, load_team, run_sync
from teamwright.agents.functions.imports import import_own, import_path, modules_of, portable
from teamwright.errors import ManifestError, UsageError
from teamwright.teams.manifests.manifest_loader import load

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


def test_a_module_that_the_program_has_imported_is_that_of_the_team_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import own_words\ndef answer(turn): own_words.SEEN.append(1); return 'ok'\n"
    file = folder_with(tmp_path, own_tools=code, own_words="SEEN = []")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    words = __import__("own_words")
    run_sync(load_team(file), "go", journal="memory")
    assert words.SEEN == [1]
    assert "own_tools" not in sys.modules


def test_nothing_else_in_the_process_finds_them(tmp_path: Path) -> None:
    load_team(folder_with(tmp_path, own_tools="import own_other\n" + says("own"), own_other="X = 1"))
    for name in ("own_tools", "own_other"):
        assert name not in sys.modules
        with pytest.raises(ModuleNotFoundError):
            __import__(name)


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


@pytest.mark.parametrize(
    "code",
    [
        "def answer(turn):\n    from own_late import WORD\n    return WORD",
        "from functools import partial\ndef say(word, turn): return word\nanswer = partial(say, 'late')",
        "class Answer:\n    def __call__(self, turn):\n        import own_late; return 'late'\nanswer = Answer()",
        "from own_late import Word\ndef answer(turn): return Word('late')",
    ],
)
def test_code_in_another_process_finds_its_modules_there(tmp_path: Path, code: str) -> None:
    late = "from dataclasses import dataclass\nWORD = 'late'\n@dataclass\nclass Word:\n    text: str\n"
    file = folder_with(tmp_path, own_tools=code, own_late=late)
    file.write_text("agents: {a: {function: 'own_tools:answer', isolate: process}}")
    result = run_sync(load_team(file), "go", journal="memory")
    assert "late" in str(result.output), result


def test_a_function_outside_a_manifest_stays_itself() -> None:
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


IDIOMS = {
    "relative": ("from . import own_words\nfrom .own_words import WORD\nANSWER = own_words.WORD", "WORD = 'hi'"),
    "dotted": ("import own_package.inner.words\nANSWER = own_package.inner.words.WORD", ""),
    "renamed": ("import own_package.inner.words as found\nANSWER = found.WORD", ""),
    "from a package": ("from own_package.inner import words\nANSWER = words.WORD", ""),
    "from a package up": ("from own_package.upwards import WORD as ANSWER", "WORD = 'hi'"),
    "everything": ("from own_words import *\nANSWER = WORD", "WORD = 'hi'"),
    "circular": (
        "import own_words\nHELLO = 'hi'\nANSWER = property(lambda self: own_words.word())",
        "import own_tools\ndef word(): return own_tools.HELLO",
    ),
    "by a program in a text": ("exec('import own_words')\nANSWER = own_words.WORD", "WORD = 'hi'"),
    "in a thread": (
        """
import threading
found = []
def look():
    import own_words
    found.append(own_words.WORD)
one = threading.Thread(target=look)
one.start()
one.join()
ANSWER = found[0]""",
        "WORD = 'hi'",
    ),
    "relative by name": (
        "from importlib import import_module\nANSWER = import_module('.own_words', __package__).WORD",
        "WORD = 'hi'",
    ),
    "optional": (
        """
try:
    import own_package.nothing
except ModuleNotFoundError as error:
    ANSWER = "hi" if error.name == "own_package.nothing" else error.name""",
        "",
    ),
}


@pytest.mark.parametrize("idiom", IDIOMS)
def test_modules_import_each_other_in_every_way_of_python(tmp_path: Path, idiom: str) -> None:
    tools, words = IDIOMS[idiom]
    inner = tmp_path / "own_package" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner.parent / "upwards.py").write_text("from own_words import WORD")
    (inner / "__init__.py").write_text("")
    (inner / "words.py").write_text("WORD = 'hi'")
    answer = "\ndef answer(turn): return ANSWER.fget(None) if isinstance(ANSWER, property) else ANSWER\n"
    file = folder_with(tmp_path, own_tools=tools + answer, own_words=words)
    result = run_sync(load_team(file), "go", journal="memory")
    assert result.output == "hi", result


def test_types_of_a_module_are_found_by_those_who_look_them_up(tmp_path: Path) -> None:
    code = """
from __future__ import annotations
import dataclasses, typing
from pydantic import BaseModel
@dataclasses.dataclass
class Point:
    at: typing.ClassVar[int] = 1
    next: Point | None = None
class Shape(BaseModel):
    points: list[Point]
def answer(turn: str) -> Shape: return Shape(points=[Point(Point())])
"""
    folder_with(tmp_path, own_tools=code)
    with modules_of(tmp_path):
        tools = import_own("own_tools")
    assert [one.name for one in tools.dataclasses.fields(tools.Point)] == ["next"]
    assert tools.typing.get_type_hints(tools.answer)["return"] is tools.Shape
    assert tools.answer("").points[0].next == tools.Point()
    assert "return Shape" in inspect.getsource(tools.answer)
    assert inspect.getmodule(tools.Point) is tools


def test_a_sibling_with_the_name_of_a_used_package_is_found_by_siblings_alone(tmp_path: Path) -> None:
    import rich

    code = "import rich, rich.deep\ndef answer(turn): return rich.WORD + rich.deep.WORD\n"
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").write_text("WORD = 'own'")
    (tmp_path / "rich" / "deep.py").write_text("WORD = ' deep'")
    assert run_sync(load_team(folder_with(tmp_path, own_tools=code)), "go", journal="memory").output == "own deep"
    assert __import__("rich") is sys.modules["rich"] is rich


def test_a_folder_of_data_with_the_name_of_a_package_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "rich").mkdir()
    file = folder_with(tmp_path, own_tools="from rich.text import Text\ndef answer(turn): return str(Text('hi'))\n")
    assert run_sync(load_team(file), "go", journal="memory").output == "hi"


def test_errors_and_records_know_modules_by_their_plain_names(tmp_path: Path) -> None:
    file = folder_with(tmp_path, own_tools=says("own"))
    with modules_of(tmp_path):
        assert import_path(import_own("own_tools").answer) == "own_tools:answer"
    file = folder_with(tmp_path / "wrong", own_tools="from own_words import NOTHING", own_words="")
    with pytest.raises(UsageError, match=r"cannot import name 'NOTHING' from 'own_words'"):
        load_team(file)
    file = folder_with(tmp_path / "relative", own_tools="from . import nothing")
    with pytest.raises(UsageError, match=r"cannot import name 'nothing' from '\.'"):
        load_team(file)
    file = folder_with(tmp_path / "lacking", own_tools="import own_words.nothing", own_words="")
    with pytest.raises(UsageError, match=r"No module named 'own_words.nothing'; 'own_words' is not a package"):
        load_team(file)


def test_a_folder_that_was_missing_is_found_once_it_is_there(tmp_path: Path) -> None:
    with modules_of(tmp_path / "team"):
        with pytest.raises(ModuleNotFoundError, match="No module named 'own_tools'"):
            import_own("own_tools")
        folder_with(tmp_path / "team", own_tools=says("there"))
        assert import_own("own_tools").answer(None) == "there"


def test_a_linked_module_that_the_program_has_imported_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path / "elsewhere", own_tools=says("linked"))
    file = folder_with(tmp_path / "team")
    (tmp_path / "team" / "own_tools.py").symlink_to(tmp_path / "elsewhere" / "own_tools.py")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "team"), *sys.path])
    used = __import__("own_tools")
    with modules_of(file.parent):
        assert import_own("own_tools") is used


def test_a_shared_module_works_in_another_process_too(tmp_path: Path) -> None:
    file = folder_with(
        tmp_path, own_tools="import own_words\ndef answer(turn): return own_words.WORD", own_words="WORD='w'"
    )
    file.write_text("agents: {a: {function: 'own_tools:answer', isolate: process}}")
    (tmp_path / "program.py").write_text(
        "import own_tools\nfrom teamwright import load_team, run_sync\n"
        "if __name__ == '__main__':\n    print(run_sync(load_team('team.yaml'), 'go', journal='memory').output)\n"
    )
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "w\n", done.stderr


def test_an_import_by_name_is_refused_with_the_form_that_finds_a_sibling(tmp_path: Path) -> None:
    code = "from importlib import import_module\nimport_module('own_words')\n"
    with pytest.raises(UsageError, match=r"No module named 'own_words'; it is beside.*'\.own_words', __package__"):
        load_team(folder_with(tmp_path, own_tools=code, own_words=""))


def test_a_module_is_named_without_the_ending_of_its_file(tmp_path: Path) -> None:
    file = folder_with(tmp_path, own_tools=says("own"))
    file.write_text("agents: {a: {function: 'own_tools.py:answer'}}")
    with pytest.raises(UsageError, match=r"write its name without the ending:  own_tools:FUNCTION"):
        load_team(file)


def test_a_folder_is_imported_once_however_often_its_team_is_loaded(tmp_path: Path) -> None:
    file = folder_with(tmp_path, own_tools=says("own"))
    load_team(file)
    known, path, finders = set(sys.modules), list(sys.path), len(sys.meta_path)
    for _ in range(200):
        load_team(file)
    assert {name for name in set(sys.modules) - known if "own_" in name} == set()
    assert (sys.path, len(sys.meta_path)) == (path, finders)


def test_many_threads_load_teams_with_modules_of_equal_names(tmp_path: Path) -> None:
    tools = "import own_words, own_package.more\ndef answer(turn):\n    import own_late\n    return own_late.WORD\n"
    files: list[Path] = []
    for number in range(24):
        folder = tmp_path / str(number)
        files.append(folder_with(folder, own_tools=tools, own_words="X = 1", own_late=f"WORD = '{number}'"))
        (folder / "own_package").mkdir()
        (folder / "own_package" / "__init__.py").write_text("")
        (folder / "own_package" / "more.py").write_text("from own_words import X\nimport own_late")

    def load(file: Path) -> str:
        answer = run_sync(load_team(file), "go", journal="memory").output
        return "" if answer == file.parent.name else f"{file.parent.name}: {answer!r}"

    with ThreadPoolExecutor(8) as pool:
        assert [wrong for wrong in pool.map(load, files * 3) if wrong] == []


def test_an_import_of_the_program_finds_its_own_module_while_teams_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path / "program", own_tools=says("program"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "program"), *sys.path])
    files = [folder_with(tmp_path / str(number), own_tools=says("team")) for number in range(40)]
    ended, wrong = threading.Event(), list[object]()

    def use_own() -> None:
        while not ended.is_set():
            sys.modules.pop("own_tools", None)
            found = __import__("own_tools")
            if (answer := found.answer(None)) != "program":
                wrong.append(answer)

    program = threading.Thread(target=use_own)
    program.start()
    try:
        answers = {run_sync(load_team(file), "go", journal="memory").output for file in files}
    finally:
        ended.set()
        program.join()
    assert (answers, wrong) == ({"team"}, [])


async def test_runs_are_resumed_together_while_their_modules_load(tmp_path: Path) -> None:
    """In a process of its own, where nothing is imported yet, as after the crash of a service."""
    manifest = "agents: {a: {function: 'own_tools:answer', confirm: {before: true}}}\nteams: {t: {members: [a]}}\n"
    async with Engine(tmp_path / "j.db") as engine:
        for number in range(6):
            file = folder_with(tmp_path / str(number), own_tools=says(f"said {number}"))
            file.write_text(manifest)
            assert (await engine.run(load_team(file, team="t"), "go", run_id=f"r{number}")).status == "paused"
            (question,) = (await engine.runs.history(f"r{number}")).questions()
            await engine.runs.answer(f"r{number}", question, "approve")
    program = """
import asyncio, sys
from teamwright import Engine
async def main():
    async with Engine(sys.argv[1]) as engine:
        handles = await asyncio.gather(*(engine.start_resume(f"r{number}") for number in range(6)))
        for result in await asyncio.gather(*(handle.result() for handle in handles)):
            print(result.status, result.messages[0].content)
asyncio.run(main())
"""
    command = [sys.executable, "-c", program, str(tmp_path / "j.db")]
    done = await anyio.run_process(command, check=False, cwd=tmp_path)
    assert done.stdout.decode().splitlines() == [f"completed said {number}" for number in range(6)], (
        done.stderr.decode()
    )
