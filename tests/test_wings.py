"""Wings bring commands and hooks, and the core goes on without them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from teamwright.errors import MissingExtra, UsageError
from teamwright.wings import GROUP, Wing, absent_words, find_wings, hooks, load, required_hook

EXAMPLE = Wing(name="example", libraries=("no_such_library",), hooks={"greet": f"{__name__}:greet"})


def greet(name: str) -> str:
    return f"hello {name}"


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points of wings, at first that of the example and one whose folder was removed."""
    points = [
        EntryPoint("example", f"{__name__}:EXAMPLE", GROUP),
        EntryPoint("gone", "teamwright.no_such_wing.wing:WING", GROUP),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == GROUP else [])
    find_wings.cache_clear()
    yield points
    find_wings.cache_clear()


def test_every_path_of_the_wings_leads_somewhere() -> None:
    assert [wing.name for wing in find_wings()] == ["cluster", "experts", "lab", "server"]
    for wing in find_wings():
        for path in (*wing.commands.values(), *wing.hooks.values()):
            assert load(path) is not None


@pytest.mark.usefixtures("declared")
def test_a_hook_is_found_by_its_place_and_a_removed_wing_is_not_there() -> None:
    assert find_wings() == (EXAMPLE,)
    assert [hook("Ada") for hook in hooks("greet")] == ["hello Ada"]
    assert hooks("leave") == []


@pytest.mark.usefixtures("declared")
def test_what_no_wing_brings_is_refused_with_the_parts_that_are_missing() -> None:
    assert required_hook("greet", "Greeting")("Ada") == "hello Ada"
    with pytest.raises(UsageError, match=r"^--html needs an optional part that is not installed \(gone\); add it with"):
        required_hook("export_page", "--html")


def test_a_broken_wing_is_not_taken_for_a_removed_one(declared: list[EntryPoint]) -> None:
    declared[:] = [EntryPoint("broken", f"{__name__}:nothing_of_this_name", GROUP)]
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        find_wings()


def test_a_missing_library_names_the_extra_and_any_other_error_passes() -> None:
    with pytest.raises(MissingExtra, match="'example'"), EXAMPLE.needed("Greeting"):
        import no_such_library  # noqa: F401 # pyright: ignore[reportMissingImports]
    with pytest.raises(ModuleNotFoundError, match="another"), EXAMPLE.needed("Greeting"):
        import another_missing_library  # noqa: F401 # pyright: ignore[reportMissingImports]


def test_nothing_is_said_about_missing_parts_where_all_are_there() -> None:
    assert absent_words() == ""
