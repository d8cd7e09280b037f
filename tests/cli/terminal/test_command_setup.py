"""Reading a manifest runs nothing: code that it names is listed and not loaded, unless it is about to be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.functions.imports import UnloadedFunction, can_load_code, code_not_loaded, load_function
from teamwright.agents.tools.python import PythonTool
from teamwright.cli.main import main
from teamwright.errors import UsageError
from teamwright.strategies import registry
from teamwright.strategies.registry import UnloadedStrategy, find_strategy
from teamwright.teams.manifests.code_references import code_in
from tests.teams.manifests.manifests import loaded

MODULE = "stranger_{name}"
CODE = """
from pathlib import Path
Path(r"{mark}").write_text("imported")
def answer(turn): return "hello"
def look(word: str) -> str: return word
"""
MANIFEST = """
agents:
  f: {{function: "{module}:answer"}}
  m: {{model: scripted:replies.yaml, tools: [{{function: "{module}:look"}}, lookup, server]}}
  n: {{model: scripted:replies.yaml, tools: [{{mcp: {{command: [touch, "{mark}"]}}}}]}}
tools:
  lookup: "{module}:look"
  server: {{mcp: {{url: "http://127.0.0.1:9/mcp"}}}}
teams:
  t: {{members: [f, m, n]}}
  d:
    strategy: dag
    members: [f, m]
    dag: {{steps: [{{id: f, execution_tokens: 5}}, {{id: m, needs: [f]}}]}}
"""
READERS = [
    ["show", "M", "--team", "t"],
    ["show", "M", "--team", "t", "--json"],
    ["plan", "M", "--team", "d"],
    ["plan", "M", "--team", "d", "--json"],
    ["plan", "M", "--team", "d", "--topology", "auto"],
    ["lab", "advise", "M", "task", "--team", "t"],
    ["lab", "advise", "M", "task", "--team", "d", "--json"],
    ["validate", "M", "--no-import"],
    ["validate", "M", "--no-import", "--json"],
]
LOADERS = [
    ["validate", "M"],
    ["run", "M", "task", "--team", "f"],
    ["lab", "simulate", "M", "task", "--team", "f", "--runs", "1"],
]


def commands(lines: list[list[str]]) -> list[object]:
    """Each command line as a parameter, with the marker of the wing that it needs."""
    marks = [[pytest.mark.lab] if {"lab", "--topology"} & {*line} else [] for line in lines]
    return [pytest.param(line, marks=mark, id=" ".join(line)) for line, mark in zip(lines, marks, strict=True)]


class Stranger:
    """A folder with a manifest, and a module that leaves a mark when it is imported."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.module, self.mark = folder, MODULE.format(name=name), folder / "mark"
        folder.mkdir(exist_ok=True)
        (folder / f"{self.module}.py").write_text(CODE.format(mark=self.mark))
        (folder / "replies.yaml").write_text("rules: [{reply: hello, times: 9}]")
        self.file = folder / "team.yaml"
        self.file.write_text(MANIFEST.format(module=self.module, mark=self.mark))

    def run(self, arguments: list[str]) -> int:
        return main([str(self.file) if one == "M" else one for one in arguments])


@pytest.fixture
def stranger(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stranger]:
    made = Stranger(tmp_path / "stranger", f"m{abs(hash(request.node.nodeid))}")
    before = list(sys.path)
    yield made
    sys.path[:] = before
    sys.modules.pop(made.module, None)


@pytest.mark.parametrize("arguments", commands(READERS))
def test_commands_that_read_a_manifest_load_none_of_its_code(
    stranger: Stranger, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:  # S-04
    path, modules = list(sys.path), set(sys.modules)
    assert stranger.run(arguments) == 0
    told = capsys.readouterr()
    assert not stranger.mark.exists()
    assert sys.path == path
    assert stranger.module not in sys.modules
    assert not {name for name in sys.modules.keys() - modules if not name.startswith(("teamwright", "_"))} & {
        path.stem for path in stranger.folder.iterdir()
    }
    assert f"not loaded: function '{stranger.module}:answer' of agent 'f'" in told.err
    assert f"not loaded: function '{stranger.module}:look' of tool 'lookup'" in told.err
    assert "not loaded: MCP server 'touch " in told.err
    assert "not loaded: MCP server 'http://127.0.0.1:9/mcp' of tool 'server'" in told.err
    if "--json" in arguments and arguments[0] in ("show", "validate"):
        listed = json.loads(told.out)["not_loaded"]
        assert {"kind": "function", "code": f"{stranger.module}:answer", "of": "agent 'f'"} in listed


@pytest.mark.parametrize("arguments", commands(LOADERS))
def test_commands_that_use_a_manifest_load_its_code(stranger: Stranger, arguments: list[str]) -> None:  # S-04
    assert stranger.run(arguments) == 0
    assert stranger.mark.read_text() == "imported"


@pytest.mark.parametrize("arguments", [["show"], ["validate", "--no-import"], ["plan", "--team", "d"]], ids=" ".join)
def test_modules_of_the_folder_never_shadow_others(tmp_path: Path, arguments: list[str]) -> None:  # S-04
    """In another process, started in the folder: nothing in it shadows the modules of Python."""
    stranger = Stranger(tmp_path / "stranger", "shadow")
    for name in ("json", "asyncio", "yaml", "jinja2", "rich", "pydantic", "sitecustomize", "typing"):
        (stranger.folder / f"{name}.py").write_text(
            f"open({str(stranger.mark)!r}, 'w').write({name!r})\nraise SystemExit(9)"
        )
    script = Path(sys.executable).parent / "teamwright"
    command = [str(script), arguments[0], "team.yaml", "--team", "t", *arguments[1:]]
    if arguments[0] != "show":
        command = [str(script), arguments[0], "team.yaml", *arguments[1:]]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=stranger.folder, capture_output=True, text=True, timeout=50, env=environment, check=False
    )
    assert (done.returncode, stranger.mark.exists()) == (0, False), done.stderr


@pytest.mark.parametrize(
    "command", commands([["run"], ["validate"], ["lab", "simulate"], ["runs", "resume"], ["runs", "fork"]])
)
def test_help_says_which_commands_load_code(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:  # S-04
    assert main([*command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "loaded, as" in text or "imported, as python would" in text


@pytest.mark.parametrize("command", commands([["show"], ["plan"], ["lab", "advise"]]))
def test_help_says_which_commands_load_none(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:  # S-04
    assert main([*command, "--help"]) == 0
    assert "listed, not loaded" in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package has registered a strategy; importing it fails loudly."""
    point = EntryPoint("relay-race", "tests.nowhere:Relay", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points_of", lambda _: [point])
    registry._third_party.cache_clear()
    yield
    registry._third_party.cache_clear()


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(
    "arguments", commands([["show", "M"], ["validate", "M", "--no-import"], ["lab", "advise", "M", "task"]])
)
def test_a_strategy_of_another_package_is_not_loaded_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:  # S-04
    file = tmp_path / "team.yaml"
    team = "{strategy: relay-race, members: [a, b], relay_race: {legs: [a]}}"
    file.write_text(f"agents: {{a: {{model: local}}, b: {{model: local}}}}\nteams: {{t: {team}}}\n")
    assert main([str(file) if one == "M" else one for one in arguments]) == 0
    assert "not loaded: strategy 'relay_race' of team 't'" in capsys.readouterr().err
    assert main(["validate", str(file)]) == 2
    assert "can't be loaded" in capsys.readouterr().err
    with code_not_loaded():
        stand_in = find_strategy("relay_race")
    assert isinstance(stand_in, UnloadedStrategy)


async def test_what_was_not_loaded_cannot_be_used() -> None:  # S-04
    with code_not_loaded():
        assert not can_load_code()
        function = load_function("stranger:answer", "the agent")
        stand_in = UnloadedStrategy("x", "y:z")
    assert can_load_code()
    assert isinstance(function, UnloadedFunction)
    assert FunctionAgent("a", function).spec.function == "stranger:answer"
    assert PythonTool(function).name == "answer"
    with pytest.raises(UsageError, match="'stranger:answer' was not loaded"):
        function("turn")
    with pytest.raises(UsageError, match="was not loaded"):
        await stand_in.run(None, None, None)  # pyright: ignore[reportArgumentType]


def test_all_code_of_a_manifest_is_listed_once(stranger: Stranger) -> None:  # S-04
    manifest = loaded(stranger.folder, stranger.file.read_text(), name="again.yaml").manifest
    kinds = [(one.kind, one.owner) for one in code_in(manifest)]
    assert kinds == [
        ("function", "agent 'f'"),
        ("function", "agent 'm'"),
        ("MCP server", "agent 'n'"),
        ("function", "tool 'lookup'"),
        ("MCP server", "tool 'server'"),
    ]
