"""Wings bring commands and hooks, and the core goes on without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import resolve_name

import pytest

from teamwright import load_team
from teamwright.agents.tools.registry import kind_names
from teamwright.errors import ManifestError, MissingExtra, UnknownName, UsageError
from teamwright.strategies.registry import find_strategy, strategy_names
from teamwright.wings import (
    GROUP,
    Registered,
    Wing,
    _absent,
    absent_words,
    find_wings,
    hint,
    hooks,
    required_hook,
)
from tests.absent_wings import WINGS
from tests.kit.entry_points import without_wings
from tests.paths import ROOT

EXAMPLE = Wing(
    name="example",
    libraries=("no_such_library",),
    hooks={"greet": f"{__name__}:greet"},
    hints={"set_name": "example set {name}"},
)
SOURCE = ROOT / "src" / "teamwright"


def greet(name: str) -> str:
    return f"hello {name}"


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points of wings, at first that of the example and one whose folder was removed."""
    points = [
        EntryPoint("example", f"{__name__}:EXAMPLE", GROUP),
        EntryPoint("gone", "teamwright.no_such_wing.wing:WING", GROUP),
    ]
    monkeypatch.setattr("teamwright.wings.entry_points_of", lambda _: points)
    for cached in (find_wings, _absent):
        cached.cache_clear()
    yield points
    for cached in (find_wings, _absent):
        cached.cache_clear()


def test_every_path_of_the_wings_leads_somewhere() -> None:
    assert [wing.name for wing in find_wings()] == ["cluster", "experts", "lab", "server"]
    for wing in find_wings():
        for path in (*wing.commands.values(), *wing.hooks.values()):
            assert resolve_name(path) is not None


@pytest.mark.usefixtures("declared")
def test_a_hook_is_found_by_its_place_and_a_removed_wing_is_not_there() -> None:
    assert find_wings() == (EXAMPLE,)
    assert [hook("Ada") for hook in hooks("greet")] == ["hello Ada"]
    assert hooks("leave") == []


@pytest.mark.usefixtures("declared")
def test_what_no_wing_brings_is_refused_with_the_parts_that_are_missing() -> None:
    assert required_hook("greet", "Greeting")("Ada") == "hello Ada"
    with pytest.raises(
        UsageError, match=r"^A run as an HTML file needs an optional part that is not installed \(gone\); add it with"
    ):
        required_hook("export_page", "A run as an HTML file")


def test_a_broken_wing_is_not_taken_for_a_removed_one(declared: list[EntryPoint]) -> None:
    declared[:] = [EntryPoint("broken", f"{__name__}:nothing_of_this_name", GROUP)]
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        find_wings()


def test_a_missing_library_names_the_extra_and_any_other_error_passes() -> None:
    with pytest.raises(MissingExtra, match="'example'"), EXAMPLE.needed("Greeting"):
        import no_such_library  # noqa: F401 # pyright: ignore[reportMissingImports, reportUnusedImport]
    with pytest.raises(ModuleNotFoundError, match="another"), EXAMPLE.needed("Greeting"):
        import another_missing_library  # noqa: F401 # pyright: ignore[reportMissingImports, reportUnusedImport]


def test_nothing_is_said_about_missing_parts_where_all_are_there() -> None:
    assert absent_words() == ""


@pytest.mark.usefixtures("declared")
def test_the_next_step_of_a_message_comes_from_the_wing_that_knows_it() -> None:
    assert hint("set_name", name="Ada") == "example set Ada"
    assert hint("set_colour") is None


@pytest.mark.usefixtures("declared")
def test_what_a_removed_wing_registers_is_not_there_and_what_is_broken_is() -> None:
    points = {"gone": "teamwright.no_such_wing.teams:Gone", "broken": f"{__name__}:Nobody", "far": "no_such_package:X"}
    registered = Registered(EntryPoint(name, path, "g") for name, path in points.items())
    assert list(registered.here) == ["broken", "far"]
    assert "The strategy 'gone' needs the extra 'gone': run  " in str(registered.missing("strategy", "gone"))
    assert registered.missing("strategy", "broken") is None


OF_A_WING = """\
agents: {a: {model: local, tools: [{skills: {folder: x}}]}}
teams: {t: {members: [a], strategy: expert, expert: {steps: [{id: a}]}}}
"""


def test_strategies_and_tools_of_a_removed_wing_are_refused_by_its_name_and_never_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "team.yaml").write_text(OF_A_WING, encoding="utf-8")
    with without_wings(monkeypatch, "experts"):
        with pytest.raises(ManifestError) as raised:
            load_team(tmp_path / "team.yaml")
        assert "expert" not in strategy_names()
        assert "skills" not in kind_names()
        with pytest.raises(MissingExtra, match="'expert' needs the extra 'experts'"):
            find_strategy("expert")
        with pytest.raises(UnknownName, match=r"known are (?!.*collaborate)"):
            find_strategy("xyz")
    tool, strategy = raised.value.problems
    assert "agent 'a': The kind of tool 'skills' needs the extra 'experts': run  " in tool.message
    assert "team 't': The strategy 'expert' needs the extra 'experts': run  " in strategy.message
    assert (tool.line, strategy.line) == (1, 2)


def test_nothing_in_the_core_names_a_wing_or_its_commands() -> None:
    commands = {words.split()[0] for wing in find_wings() for words in wing.commands if " " not in words}
    names = "|".join(sorted({*WINGS, *commands}))
    extras = "|".join(sorted(WINGS))  # a command may be named as an extra of the core is
    named = re.compile(rf"teamwright[. ]({names})\b|\[({extras})\]'|MissingExtra\(\"({extras})\"")
    core = [file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in WINGS]
    found = {str(file.relative_to(SOURCE)): one[0] for file in core for one in named.finditer(file.read_text("utf-8"))}
    assert found == {}
