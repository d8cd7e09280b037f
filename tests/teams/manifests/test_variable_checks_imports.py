"""Missing functions, scripts and extras of agents are reported with their position."""

from pathlib import Path

import pytest

from teamwright.errors import ManifestError
from teamwright.strategies.registry import strategy_names
from teamwright.teams.manifests.manifest_loader import Loaded, load

BAD = "- repl: x\n- reply: x\n  delay: .inf\n"


def thorough(folder: Path, text: str, *, models_replaced: bool = False) -> Loaded:
    (folder / "bad.yaml").write_text(BAD)
    (folder / "team.yaml").write_text(text)
    return load([folder / "team.yaml"], models_replaced=models_replaced, thorough=True)


def told(folder: Path, text: str) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        thorough(folder, text)
    return [str(one).removeprefix(f"{folder}/") for one in raised.value.problems]


def hide(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Let these packages seem not to be installed."""
    from importlib import util

    real = util.find_spec

    def find(name: str, package: str | None = None) -> object:
        return None if name in modules else real(name, package)

    for place in ("agents.clients.providers", "agents.tools.mcp_source"):
        monkeypatch.setattr(f"teamwright.{place}.find_spec", find)


# R-11
def test_a_missing_reference_is_reported_with_every_other_mistake(tmp_path: Path) -> None:
    text = (
        "agents:\n  a: {function: 'nowhere:f'}\n  b: {function: 'json:dumpz'}\n"
        "  c: {model: scripted:bad.yaml, retrie: 1}\n"
        "  d: {model: local, tools: ['json:lods', far]}\ntools: {far: 'json.nowhere:x'}\n"
    )
    found = told(tmp_path, text)
    assert [one.partition(": ")[0] for one in found] == [
        "bad.yaml:1:3", "bad.yaml:3:10", "team.yaml:2:17", "team.yaml:3:17", "team.yaml:4:33", "team.yaml:5:29",
        "team.yaml:6:14",
    ]  # fmt: skip
    words = "\n".join(found)
    for part in (
        "agent 'a': The module of the function 'nowhere:f' can't be imported",
        "agent 'b': There is no 'dumpz' in 'json:dumpz'",
        "'retrie' is not a field here",
        "agent 'd': There is no 'lods' in 'json:lods'",
        "tool 'far': The module of the tool 'json.nowhere:x'",
    ):
        assert part in words


def test_a_script_is_read_once_wherever_it_stands(tmp_path: Path) -> None:
    text = (
        "agents:\n  a: {model: scripted:bad.yaml}\n  b: {model: 'scripted:bad.yaml'}\n  c: {model: m}\n"
        "  d: {model: n, fallback: {model: 'scripted:bad.yaml'}}\n"
        "models: {m: 'scripted:bad.yaml', n: {model: 'scripted:bad.yaml', per_minute: {calls: 9}}}\n"
    )
    assert len(told(tmp_path, text)) == 2


def test_scripts_that_are_replaced_are_not_read(tmp_path: Path) -> None:
    text = "agents:\n  a: {model: scripted:bad.yaml}\n  b: {function: 'json:dumps'}\n"
    assert thorough(tmp_path, text, models_replaced=True).manifest.agents.keys() == {"a", "b"}


def test_a_module_that_fails_to_import_is_reported_like_any_other_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaks_on_import.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = told(tmp_path, "agents:\n  a: {function: 'breaks_on_import:f'}\n")
    assert "can't be imported: ZeroDivisionError: division by zero" in found[0]


def test_a_quick_look_imports_and_reads_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "team.yaml").write_text("agents: {a: {function: 'nowhere:f'}, b: {model: scripted:bad.yaml}}")
    assert load([tmp_path / "team.yaml"]).places["b"].column == 38


def test_a_missing_extra_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "anthropic", "mcp", "xllamacpp")
    text = (
        "agents:\n  a: {model: m, tools: [{mcp: {url: 'http://127.0.0.1:1/'}}]}\n  b: {model: 'openai:x'}\n"
        "  c: {model: local}\nmodels:\n  m: anthropic:x\n"
    )
    found = [(one.line, one.column, one.message) for one in thorough(tmp_path, text).warnings]
    assert [(line, column) for line, column, _ in found] == [(2, 31), (4, 14), (6, 6)]
    assert [message.rpartition("[")[2] for *_, message in found] == ["mcp]'", "local]'", "anthropic]'"]
    assert "model 'm': The model 'anthropic:x' needs the extra 'anthropic'" in found[2][2]


def test_a_text_that_is_no_import_path_is_reported_once(tmp_path: Path) -> None:
    manifest = tmp_path / "team.yaml"
    manifest.write_text(
        "agents: {a: {model: local, check: {input: nope}, instructions: {function: desk.look}}}\n"
        "teams: {t: {members: [a]}}\n"
    )
    with pytest.raises(ManifestError) as caught:
        load([manifest], thorough=True)
    assert [one.message for one in caught.value.problems] == [
        "agent 'a': 'nope' is not an import path",
        "agent 'a': 'desk.look' is not an import path",
    ]


def test_mistakes_of_functions_are_reported_together_at_their_places(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(
        "def look(city: str) -> str: return city\ndef found(town: str) -> None: ...\ndef bare() -> None: ...\n"
    )
    manifest = tmp_path / "team.yaml"
    manifest.write_text(
        "agents:\n"
        "  a:\n"
        "    model: local\n"
        "    check:\n"
        "      {input: 'desk:bare', output: 'desk:bare'}\n"
        "    instructions: {function: 'desk:bare'}\n"
        "    handoffs: [c]\n"
        "    tools:\n"
        "      - function: desk:look\n"
        "        once: [cityy, city]\n"
        "        check: desk:found\n"
        "      - {function: 'desk:nothing', check: 'desk:nobody', once: []}\n"
        "  b: {function: 'desk:bare'}\n"
        "teams: {t: {members: [a, b], strategy: sequental}}\n"
    )
    with pytest.raises(ManifestError) as caught:
        load([manifest], thorough=True)
    found = [(one.line, one.column, one.message.partition(": ")[2]) for one in caught.value.problems]
    assert found == [
        (5, 15, "'check.input' must be a function (text, ctx); its parameters are () -> None."),
        (5, 36, "'check.output' must be a function (text, ctx); its parameters are () -> None."),
        (6, 30, "'instructions' must be a function (ctx); its parameters are () -> None."),
        (7, 16, "'a' hands off to 'c', which is no member of its team"),
        (10, 16, "'desk:look' has no parameter 'cityy' for 'once'"),
        (11, 16, "the check 'desk:found' takes 'town', which 'desk:look' does not"),
        (12, 20, "There is no 'nothing' in 'desk:nothing'; known are bare, found, look."),
        (12, 43, "There is no 'nobody' in 'desk:nobody'; known are bare, found, look."),
        (12, 64, "'once' names no parameter, so it identifies no action"),
        (13, 17, "'function' must be a function (turn) or (turn, ctx); its parameters are () -> None."),
        (14, 40, "there is no strategy 'sequental'; known are " + ", ".join(strategy_names())),
    ]


def test_a_module_that_has_the_name_of_pythons_own_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "calendar.py").write_text("def look(city: str) -> str: return city\n")
    manifest = tmp_path / "team.yaml"
    manifest.write_text("agents: {a: {model: local, tools: ['calendar:look']}}")
    with pytest.raises(ManifestError) as caught:
        load([manifest], thorough=True)
    (problem,) = caught.value.problems
    assert problem.message.startswith("agent 'a': The module of the tool 'calendar:look' can't be imported: The module")
    assert problem.message.endswith("has the name of a module that Python or Teamwright needs; rename the file.")
