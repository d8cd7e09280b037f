"""Plans for tests: written in a line, drawn at random, large ones of known shapes; and a count of work."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from teamwright.values.specs.plan import Plan, Step
from tests.growth import count_calls


def plan(**steps: str) -> Plan:
    """A plan from keyword arguments: `b="a / core api"` needs `a` and owns two keys."""
    made: list[Step] = []
    for id_, written in steps.items():
        needs, _, owns = written.partition("/")
        made.append(Step(id=id_, needs=tuple(needs.split()), owns=tuple(owns.split())))
    return Plan(steps=tuple(made))


@st.composite
def plans(draw: st.DrawFn, most: int = 14) -> Plan:
    """Steps that need earlier ones and own a few keys, declared in any order, with estimates of any size."""
    keys = "abcd"[: draw(st.integers(1, 4))]
    made = [
        Step(
            id=f"s{number}",
            needs=tuple(f"s{one}" for one in draw(st.sets(st.integers(0, number - 1), max_size=3))) if number else (),
            owns=tuple(draw(st.lists(st.sampled_from(keys), max_size=3, unique=True))),
            execution_tokens=draw(st.integers(0, 400)),
            coordination_tokens=draw(st.integers(0, 60)),
        )
        for number in range(draw(st.integers(1, most)))
    ]
    return Plan(steps=tuple(draw(st.permutations(made))))


def _windowed(size: int) -> Plan:
    """Each step needs five of those before it, and shares its key with a few."""
    return Plan(
        steps=tuple(
            Step(
                id=f"s{one}",
                needs=tuple(f"s{one - back}" for back in (1, 7, 20, 33, 50) if back <= one),
                owns=(f"file-{one % 100}",),
            )
            for one in range(size)
        )
    )


def _owning(owns: Callable[[int], tuple[str, ...]]) -> Callable[[int], Plan]:
    return lambda size: Plan(steps=tuple(Step(id=f"s{one}", owns=owns(one)) for one in range(size)))


def _crossing(size: int) -> Plan:
    """In turns one of two keys is taken by a step that comes first, while a crowd waits for both and for one more."""
    third = size // 3
    names = [f"{number:06}" for number in range(third)]
    first = [Step(id=f"a{name}", owns=("line",)) for name in names]
    turns = [Step(id=f"b{name}", needs=(f"a{name}",), owns=("xy"[int(name) % 2],)) for name in names]
    gate = [Step(id="c"), Step(id="d", needs=("c",))]
    crowd = [Step(id=f"e{name}", needs=("d",), owns=("x", "y", f"own-{name}")) for name in names]
    return Plan(steps=(*first, *turns, *gate, *crowd))


LARGE: Mapping[str, Callable[[int], Plan]] = {
    "windowed": _windowed,
    "one key": _owning(lambda one: ("key",)),
    "one key and their own": _owning(lambda one: (f"own-{one}", "key")),
    "three of ten keys": _owning(lambda one: (f"k{one % 10}", f"k{one * 3 % 10}", f"k{one * 7 // 10 % 10}")),
    "any three of twelve keys": _owning(lambda one: tuple(random.Random(one).sample([f"k{n}" for n in range(12)], 3))),
    "crossing": _crossing,
}


def work(call: Callable[[], object]) -> int:
    """How many calls of functions something takes, which depends on nothing but the program."""
    return count_calls(lambda _: call(), None)
