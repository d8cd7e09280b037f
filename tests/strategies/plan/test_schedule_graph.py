"""Graphs of steps: every error names its step, cycles are found, and the order is topological."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from teamwright.strategies.plan.schedule import StepGraph, StepNode, cycles, graph_faults
from tests.strategies.plan.plans import work


def nodes(**needs: str) -> list[StepNode]:
    """Nodes from keyword arguments: `b="a"`, `c="a b"`."""
    return [StepNode(name, of.split()) for name, of in needs.items()]


@st.composite
def any_nodes(draw: st.DrawFn) -> list[StepNode]:
    """Steps that need any others, themselves and missing ones included."""
    ids = draw(st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True))
    return [StepNode(id_, draw(st.lists(st.sampled_from([*ids, "x"]), max_size=4))) for id_ in ids]


@st.composite
def layered(draw: st.DrawFn) -> list[StepNode]:
    """Steps that need only earlier ones, declared in any order."""
    made = [
        StepNode(f"s{number}", [f"s{one}" for one in draw(st.sets(st.integers(0, number - 1)))] if number else [])
        for number in range(draw(st.integers(1, 12)))
    ]
    return draw(st.permutations(made))


def test_the_order_takes_roots_by_name_and_the_rest_as_they_become_free() -> None:  # Z-04
    graph = StepGraph.from_nodes(nodes(z="b", b="", late="a z", y="a", a=""))
    assert graph.order == ["a", "b", "y", "z", "late"]
    assert graph.dependents["a"] == ["late", "y"]


@given(layered())
def test_every_step_stands_after_what_it_needs(steps: list[StepNode]) -> None:
    order = list(StepGraph.from_nodes(steps).order)
    assert sorted(order) == sorted(step.id for step in steps)
    assert not graph_faults(steps)
    assert all(order.index(need) < order.index(step.id) for step in steps for need in step.needs)


@pytest.mark.parametrize(
    ("steps", "text", "place"),
    [
        ([StepNode("")], "step 1 has no id", (0, None)),
        ([StepNode("a"), StepNode("a")], "two steps are called 'a'; give one of them another id", (1, None)),
        (nodes(a="a"), "the step 'a' needs itself", (0, 0)),
        (nodes(a="", b="a a"), "the step 'b' needs 'a' twice", (1, 1)),
        (
            nodes(analyse="", plan="analyze"),
            "the step 'plan' needs 'analyze', which is no step; did you mean 'analyse'?",
            (1, 0),
        ),
        (
            nodes(a="c", b="a", c="b", d="c"),
            "steps need each other in a circle: 'a' needs 'c' needs 'b' needs 'a'; remove one of these needs",
            (0, None),
        ),
    ],
)  # fmt: skip
def test_each_fault_is_reported_with_its_place(steps: list[StepNode], text: str, place: tuple[int, int | None]) -> None:
    (fault,) = graph_faults(steps)
    assert fault.text == text
    assert (fault.step, fault.need) == place


def test_all_faults_are_reported_at_once() -> None:
    steps = [*nodes(a="b", b="a", c="c", d="e e", f="g", g="f"), StepNode("a")]
    told = " | ".join(fault.text for fault in graph_faults(steps))
    for part in ("called 'a'", "'c' needs itself", "'d' needs 'e', which", "'a' needs 'b'", "'f' needs 'g'"):
        assert part in told


def test_a_long_circle_is_cut_and_counted() -> None:
    steps = [StepNode(f"s{number}", [f"s{(number + 1) % 500}"]) for number in range(500)]
    (fault,) = graph_faults(steps)
    assert "(500 steps)" in fault.text
    assert len(fault.text) < 250


@given(any_nodes())
def test_what_is_reported_as_a_circle_is_one(steps: list[StepNode]) -> None:
    graph = StepGraph.from_nodes(steps)
    found = list(cycles(graph))
    assert bool(found) == (len(graph.order) < len(graph.needs))
    told = [step for cycle in found for step in cycle]
    assert len(told) == len(set(told))
    for cycle in found:
        assert all(need in graph.needs[step] for step, need in pairwise([*cycle, cycle[0]]))


@given(any_nodes())
def test_without_a_fault_everything_can_be_worked_through(steps: list[StepNode]) -> None:
    if not graph_faults(steps):
        assert len(StepGraph.from_nodes(steps).order) == len(steps)


SHAPES: dict[str, Callable[[int], Sequence[StepNode]]] = {
    "chain": lambda size: [StepNode(f"s{one}", [f"s{one - 1}"] if one else []) for one in range(size)],
    "wide": lambda size: [
        *(StepNode(f"s{one}") for one in range(size)),
        StepNode("end", [f"s{one}" for one in range(size)]),
    ],
    "circle": lambda size: [StepNode(f"s{one}", [f"s{(one + 1) % size}"]) for one in range(size)],
    "pairs": lambda size: [StepNode(f"s{one}", [f"s{one ^ 1}"]) for one in range(size)],
    "unknown": lambda size: [StepNode(f"s{one:04}", ["nowhere"] if one % 10 == 0 else []) for one in range(size)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_grows_with_the_steps_and_no_faster(shape: str) -> None:
    small, large = SHAPES[shape](500), SHAPES[shape](2_000)
    assert work(lambda: graph_faults(large)) < 4.5 * work(lambda: graph_faults(small)) + 1000


def test_ten_thousand_steps_in_a_chain_and_in_a_circle() -> None:
    assert len(StepGraph.from_nodes(SHAPES["chain"](10_000)).order) == 10_000
    assert "(10000 steps)" in graph_faults(SHAPES["circle"](10_000))[0].text
