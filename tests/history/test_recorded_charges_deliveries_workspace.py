"""Every version of a value, as of any point of the record."""

from __future__ import annotations

from hypothesis import given, strategies as st

from teamwright.history.recorded_charges import Store
from teamwright.values.turns.artifacts import SharedValue


def test_a_value_is_seen_from_the_point_at_which_it_was_written() -> None:
    store = Store()
    assert store.write("a", 1, by="x", number=3) == 1
    assert store.write("a", 2, by="y", number=7) == 2
    assert [store.get("a", at) for at in (2, 3, 6, 7)] == [
        None,
        SharedValue(value=1, version=1, by="x"),
        SharedValue(value=1, version=1, by="x"),
        SharedValue(value=2, version=2, by="y"),
    ]
    assert store.get("b") is None


def test_names_are_those_written_by_then() -> None:
    store = Store()
    store.write("b", 1, by="x", number=1)
    store.write("a", 1, by="x", number=2)
    assert store.names(1) == ["b"]
    assert store.names() == ["a", "b"]


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_versions_count_the_writes_of_each_name(names: list[str]) -> None:
    store = Store()
    for number, name in enumerate(names):
        assert store.write(name, number, by="x", number=number) == names[: number + 1].count(name)
