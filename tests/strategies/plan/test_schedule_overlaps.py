"""Keys that overlap are made equal, so that batches keep to the same rule as the locks of a run."""

from __future__ import annotations

from hypothesis import given, strategies as st

from teamwright.strategies.plan.schedule import conflict_keys
from teamwright.strategies.plan.schedule_maker import make_schedule
from teamwright.values.owned_paths import overlap
from teamwright.values.specs.plan import Plan, Step

KEYS = st.sampled_from(["a", "a/b", "a//b", "./a", "a/b/c", "b", "b/*", "b/x", "**/x", "c/", "c/d", "d", "e.py"])


@given(st.lists(st.lists(KEYS, max_size=3), max_size=8))
def test_two_steps_share_a_key_exactly_where_theirs_overlap(owns: list[list[str]]) -> None:  # Z-05
    made = [set(keys) for keys in conflict_keys(owns)]
    for place, one in enumerate(owns):
        for other in range(place):
            meet = any(overlap(key, another) for key in one for another in owns[other])
            assert bool(made[place] & made[other]) is meet


def test_keys_that_stand_apart_are_left_as_they_are() -> None:
    owns = [("src/a.py", "db"), ("src/b.py",), ("db",), ("source",)]
    assert conflict_keys(owns) is owns


def test_no_batch_holds_a_folder_and_a_file_in_it() -> None:  # Z-05
    steps = (Step(id="a", owns=("src/**",)), Step(id="b", owns=("src/x.py",)), Step(id="c", owns=("docs",)))
    assert [batch.tasks for batch in make_schedule(Plan(steps=steps)).batches] == [("a", "c"), ("b",)]
