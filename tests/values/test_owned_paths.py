"""Owned keys: which paths they cover, which of them overlap, and which steps may write where."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.values.owned_paths import Overlaps, Owned, covers, overlap, within
from tests.growth import assert_linear_calls

PARTS = st.sampled_from(["a", "b", "ab", "a.py", "*", "a*", "*.py", "?", "**", "[ab]"])
NAMES = st.sampled_from(["a", "b", "ab", "a.py", "b.py", "c"])
KEYS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("key", "path", "does"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/b.py", False),
        ("src", "src/deep/a.py", True),
        ("src/", "src/a.py", True),
        ("./src", "src/a.py", True),
        ("src", "srcs/a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**", "src/deep/a.py", True),
        ("src/**", "src", True),
        ("**/test_*.py", "tests/cli/test_run.py", True),
        ("**/test_*.py", "test_run.py", True),
        ("src/*/a.py", "src/x/a.py", True),
        ("src/*/a.py", "src/a.py", False),
        ("app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("**", "anything/at/all", True),
    ],
)
def test_a_key_covers_a_path_and_everything_below_it(key: str, path: str, does: bool) -> None:  # Z-05
    assert covers(key, path) is does


@pytest.mark.parametrize(
    ("one", "other", "do"),
    [
        ("src/**", "src/a.py", True),
        ("src", "src/deep/a.py", True),
        ("db", "db", True),
        ("db", "queue", False),
        ("src/*.py", "src/*.md", False),
        ("src/a*", "src/b*", False),
        ("src/a*", "src/*b", True),
        ("src/*", "src/deep/a.py", False),
        ("**/a.py", "src/*/a.py", True),
        ("**/a.py", "src/b.py", True),  # which might be a folder
        ("**", "src/b.py", True),
    ],
)
def test_two_keys_overlap_where_they_could_mean_one_path(one: str, other: str, do: bool) -> None:  # Z-05
    assert overlap(one, other) is do
    assert overlap(other, one) is do


@given(KEYS, KEYS, PATHS)
def test_keys_that_cover_one_path_always_overlap(one: str, other: str, path: str) -> None:
    if covers(one, path) and covers(other, path):
        assert overlap(one, other)


@given(KEYS, KEYS, PATHS)
def test_what_is_within_a_key_is_covered_by_it(inner: str, outer: str, path: str) -> None:
    """Except for paths below a file that a pattern names outright, which both levels must allow anyway."""
    if within(inner, outer) and covers(inner, path) and len(path.split("/")) == len(inner.split("/")):
        assert covers(outer, path)


@given(st.lists(KEYS, unique=True, max_size=12))
def test_the_index_finds_exactly_the_keys_that_overlap(keys: list[str]) -> None:
    seen = Overlaps()
    for key in keys:
        seen.overlapping(key)
    for key in keys:
        assert sorted(seen.overlapping(key)) == sorted(other for other in keys if overlap(key, other))


def test_a_step_may_write_what_its_scopes_own_and_everything_where_nothing_is_owned() -> None:  # Z-05
    free = Owned()
    assert free.may_write("anything")
    assert free.keys is None
    outer = free.narrowed(("src/*.py", "docs"))
    inner = outer.narrowed(("src/a.py",))
    assert inner.may_write("src/a.py")
    assert not inner.may_write("src/a.py/below")
    assert not inner.may_write("docs/x.md")
    assert outer.find_unowned(["src/a.py", "docs/x", "tests"]) == ["tests"]


def test_a_step_that_owns_nothing_writes_nothing_and_blocks_no_other() -> None:
    nothing = Owned().narrowed(("src",)).narrowed(())
    assert not nothing.may_write("src/a.py")
    assert nothing.find_unowned(["src/a.py"]) == []
    assert nothing.narrowed(("src/a.py",)).may_write("src/a.py")
    assert nothing.refusal("src/a.py").endswith("; this step owns no path: say in your answer what 'src/a.py' needs.")


def test_a_refusal_says_what_is_owned_and_what_to_do() -> None:
    text = Owned().narrowed(("src", "docs/*.md")).refusal("tests/a.py")
    assert text.startswith("'tests/a.py' is not this step's to write; this step owns 'src', 'docs/*.md': write there")
    assert "say in your answer" in text


@given(st.lists(st.lists(KEYS, max_size=6), max_size=3), st.lists(KEYS, max_size=6), PATHS)
def test_the_index_of_what_is_owned_finds_what_comparing_with_each_key_finds(
    levels: list[list[str]], keys: list[str], path: str
) -> None:
    owned = Owned(tuple(map(tuple, levels)))
    assert owned.may_write(path) is all(any(covers(key, path) for key in level) for level in levels)
    owning = [level for level in levels if level]
    beyond = [key for key in keys if not all(any(within(key, outer) for outer in level) for level in owning)]
    assert owned.find_unowned(keys) == beyond


@pytest.mark.parametrize("form", ["src/m{}.py", "src/m{}/**", "./src//m{}/*.py"])
def test_what_is_within_many_keys_is_found_in_linear_time(form: str) -> None:  # S-01
    def narrow_each(keys: tuple[str, ...]) -> None:
        outer = Owned().narrowed(keys)
        for key in keys:
            assert not outer.find_unowned((key,))
            inner = outer.narrowed((key,))
            assert inner.may_write(key.replace("*", "x"))

    assert_linear_calls(narrow_each, prepare=lambda size: tuple(form.format(number) for number in range(size)))
