"""Edges: which members may follow the last speaker."""

from __future__ import annotations

import pytest

from teamwright.strategies.edges import Edge, RouteHistory, edge_flaws
from teamwright.strategies.protocol import Members, Task
from teamwright.values.turns.artifacts import SharedValue
from teamwright.values.turns.turn import Failure, Reply, Turn
from tests.kit.members import FakeMembers

OPEN = Edge(source="a", to="b")
NEVER = Edge(source="a", to="b", when="false")
HANDLER = Edge(source="a", to="c", when="error is string")
EITHER = Edge(source="a", to="c", when="error is none or error == 'timeout'")
OTHER = Edge(source="b", to="c")


class Shared:
    """A workspace with one value in it."""

    def names(self) -> list[str]:
        return ["mood"]

    def get(self, name: str) -> SharedValue:
        return SharedValue(value="calm", version=1, by="a")


def route(*edges: Edge) -> RouteHistory:
    return RouteHistory(Task("the task"), Members(FakeMembers().members("a b c")), edges, Shared())  # pyright: ignore[reportArgumentType]


def failure(*, optional: bool = False) -> Failure:
    return Failure(member="a", error="timeout", message="the-words-of-an-error", optional=optional)


@pytest.mark.parametrize(
    ("ending", "open_"),
    [
        (Reply.of("a", "x"), [OPEN, EITHER]),
        (failure(), [HANDLER, EITHER]),
        (failure(optional=True), [HANDLER, EITHER]),
    ],
)
def test_after_a_failure_the_edges_that_look_at_it_are_open(ending: Reply | Failure, open_: list[Edge]) -> None:
    way = route(OPEN, NEVER, HANDLER, EITHER, OTHER)
    way.record("a", ending)
    assert list(way.open_edges()) == open_


def test_without_such_an_edge_an_optional_member_is_passed_over() -> None:
    way = route(NEVER, OPEN, OTHER)
    way.record("a", failure(optional=True))
    assert list(way.open_edges()) == [OPEN]
    way.record("a", failure())
    assert list(way.open_edges()) == []


def test_no_member_sees_the_text_of_a_failure() -> None:
    way = route(OPEN)
    way.record("b", Reply.of("b", "said before"))
    way.record("a", failure())
    names = way.variables()
    assert "the-words-of-an-error" not in str(names)
    assert (names["text"], names["data"], names["error"]) == ("", None, "timeout")
    assert names["state"] == {
        "turn": 2,
        "turns": {"a": 1, "b": 1, "c": 0},
        "replies": {"b": {"text": "said before", "data": None}},
    }
    assert names["workspace"] == {"mood": "calm"}


def test_before_the_first_turn_no_edge_applies() -> None:
    assert list(route(OPEN).open_edges()) == []


def test_a_transform_changes_the_task_and_nothing_else() -> None:
    way = route(OPEN)
    way.record("a", Reply.of("a", "seen"))
    turn = Turn("the task", number=2)
    assert OPEN.with_task(turn, way.variables) is turn
    changed = Edge(source="a", to="b", task="{{ text }}: {{ task }}").with_task(turn, way.variables)
    assert (changed.task, changed.number, changed.purpose) == ("seen: the task", 2, "work")


def test_each_mistake_stands_at_its_place() -> None:
    edges = [OPEN, Edge(source="a", to="b", when="1 +", task="{{ x }}")]
    assert [flaw.at for flaw in edge_flaws(edges)] == [("edges", 1, "when"), ("edges", 1, "task")]
