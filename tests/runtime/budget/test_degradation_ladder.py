"""The order of the ladder, and that each step changes its own field, and nothing where there is nothing to cut."""

from __future__ import annotations

import pytest

from teamwright.runtime.budget.degradation import AUTO, LADDER, TeamTraits
from teamwright.values.limits import NO_CUTBACK, Cutback

BUSY = TeamTraits("a2a_lite", peers=True, economy_members=frozenset("b"), closes=True, peak_concurrency=4)
PLAIN = TeamTraits("output", peers=False, economy_members=frozenset(), peak_concurrency=1)


def test_the_rungs_are_in_the_order_that_was_promised() -> None:  # Z-11
    assert [rung.name for rung in LADDER] == ["peer_talk", "summaries", "workers", "economy", "compaction", "answer"]


@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung.name)
def test_a_rung_changes_its_field_alone(rung: object) -> None:  # Z-11
    one = next(each for each in LADDER if each is rung)
    lower = one.lower(NO_CUTBACK, BUSY, AUTO)
    changed = [name for name in Cutback.__struct_fields__ if getattr(lower, name) != getattr(NO_CUTBACK, name)]
    assert changed == [one.field]
    assert one.lower(NO_CUTBACK, PLAIN, AUTO) == NO_CUTBACK


def test_one_worker_is_always_left() -> None:
    workers = next(rung for rung in LADDER if rung.name == "workers")
    lower = workers.lower(
        NO_CUTBACK,
        TeamTraits("output", peers=False, economy_members=frozenset(), peak_concurrency=2),
        AUTO._replace(workers=5),
    )
    assert lower.workers == 1
