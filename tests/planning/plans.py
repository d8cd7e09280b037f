"""Plans for tests: written in a line, drawn at random, and large ones of known shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from teamwright.values.plan import Plan, Step


def plan(**steps: str) -> Plan:
    """A plan from keyword arguments: `b="a / core, api"` needs `a` and owns two keys."""
    made: list[Step] = []
    for id_, written in steps.items():
        needs, _, owns = written.partition("/")
        made.append(Step(id=id_, needs=tuple(needs.split()), owns=tuple(owns.replace(",", " ").split())))
    return Plan(steps=tuple(made))


@st.composite
def plans(draw: st.DrawFn, most: int = 14) -> Plan:
    """Steps that need earlier ones and own a few keys, declared in any order, with estimates of any size."""
    keys = "abcd"[: draw(st.integers(1, 4))]
    made = [
        Step(
            id=f"s{number}",
            needs=tuple(sorted(draw(st.sets(st.sampled_from(range(number)), max_size=3)) if number else ())) and (),
            owns=tuple(draw(st.lists(st.sampled_from(keys), max_size=3, unique=True))),
            execution_tokens=draw(st.integers(0, 400)),
            coordination_tokens=draw(st.integers(0, 60)),
        )
        for number in range(draw(st.integers(1, most)))
    ]
    return Plan(steps=tuple(draw(st.permutations(made))))


LARGE: Mapping[str, Callable[[int], Plan]] = {}
