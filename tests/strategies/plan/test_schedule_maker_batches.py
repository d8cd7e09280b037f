"""Batches: which steps run together, which wait, and that waiting costs nothing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from teamwright.strategies.plan.schedule import StepGraph
from teamwright.strategies.plan.schedule_maker import batches, nodes_of
from teamwright.values.specs.plan import Plan, Step
from tests.strategies.plan.plans import LARGE, plan, plans, work


def batched(plan: Plan, width: int) -> list[list[str]]:
    graph = StepGraph.from_nodes(nodes_of(plan.steps))
    owns = {step.id: step.owns for step in plan.steps}
    return [[graph.order[one] for one in batch] for batch in batches(graph, [owns[id_] for id_ in graph.order], width)]


def looked_through(plan: Plan, width: int) -> list[list[str]]:
    """A literal reference implementation: each batch examines every step again."""
    graph = StepGraph.from_nodes(nodes_of(plan.steps))
    owns = {step.id: set(step.owns) for step in plan.steps}
    made: list[list[str]] = []
    done: set[str] = set()
    while len(done) < len(owns):
        batch: list[str] = []
        taken: set[str] = set()
        for id_ in graph.order:
            ready = id_ not in done and done.issuperset(graph.needs[id_])
            if ready and len(batch) < width and taken.isdisjoint(owns[id_]):
                batch.append(id_)
                taken |= owns[id_]
        made.append(batch)
        done.update(batch)
    return made


def test_ready_steps_run_concurrently_up_to_the_width() -> None:  # Z-05
    assert batched(plan(a="", b="", c="", d="a"), 2) == [["a", "b"], ["c", "d"]]
    assert batched(plan(a="", b="", c="", d="a"), 9) == [["a", "b", "c"], ["d"]]
    assert batched(plan(a="", b="", c="", d="a"), 1) == [["a"], ["b"], ["c"], ["d"]]


def test_a_step_whose_key_is_taken_keeps_its_place_and_a_later_one_may_pass_it() -> None:  # Z-05
    assert batched(plan(a="/ x", b="/ x", c="/ y", d="/ x"), 2) == [["a", "c"], ["b"], ["d"]]
    assert batched(plan(a="/ x", b="/ x y", c="/ y", d=""), 3) == [["a", "c", "d"], ["b"]]


def test_a_step_that_waits_reserves_nothing() -> None:
    """While `b` waits for `x`, others own `y`; it runs when both are free and no earlier step wants them."""
    assert batched(plan(a="/ x", b="/ x y", c="/ y", d="a / x"), 2) == [["a", "c"], ["b"], ["d"]]


@given(plans(), st.integers(1, 6))
def test_batches_are_those_that_looking_at_every_step_finds(plan: Plan, width: int) -> None:  # Z-05
    assert batched(plan, width) == looked_through(plan, width)


@given(
    st.lists(st.lists(st.sampled_from("abcde"), max_size=4, unique=True), min_size=1, max_size=40), st.integers(1, 5)
)
def test_the_same_holds_where_everything_is_about_keys(owned: list[list[str]], width: int) -> None:
    crowd = plan(**{f"s{number:02}": f"/ {' '.join(keys)}" for number, keys in enumerate(owned)})
    assert batched(crowd, width) == looked_through(crowd, width)


@pytest.mark.parametrize("seed", range(40))
def test_the_same_holds_in_crowds(seed: int) -> None:  # Z-05
    """Enough steps and keys for all kinds of waiting, which small plans seldom have."""
    chance = random.Random(seed)
    keys = [f"k{number}" for number in range(chance.choice([4, 8, 16]))]
    steps = [
        Step(
            id=f"s{number:03}",
            needs=tuple(
                {f"s{chance.randrange(number):03}" for _ in range(chance.choice([0, 0, 1, 2]))} if number else ()
            ),
            owns=tuple(chance.sample(keys, chance.randint(0, 4))),
        )
        for number in range(150)
    ]
    crowd = Plan(steps=tuple(steps))
    for width in (2, 5, 150):
        assert batched(crowd, width) == looked_through(crowd, width)


@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("width", [4, 1000])
def test_the_work_grows_with_the_steps_and_no_faster(shape: str, width: int) -> None:
    small, large = LARGE[shape](600), LARGE[shape](2_400)
    assert work(lambda: batched(large, width)) < 4.6 * work(lambda: batched(small, width)) + 1000
