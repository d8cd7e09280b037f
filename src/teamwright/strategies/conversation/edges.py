"""Edges between members: who may follow whom, on which condition, and with which task.

A condition sees what the one before said, or which kind of failure it was; the words of a failure are seen by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from pydantic import ConfigDict, Field, JsonValue

from teamwright.agents.context import Workspace
from teamwright.errors import ExpressionFailed
from teamwright.strategies.diagram import Arrow, condition_label
from teamwright.strategies.expressions.condition import Condition
from teamwright.strategies.expressions.template import Template
from teamwright.strategies.protocol import Flaw, Members, Task
from teamwright.values.models import Value
from teamwright.values.specs.manifest import MemberName
from teamwright.values.turns.turn import Failure, Reply, Turn

ERROR = "error"
Names = Mapping[str, JsonValue]
NAMES = ("text", "data", ERROR, "task", "state", "workspace")
"""What conditions and transforms of edges may read."""


class Edge(Value):
    """A way from one member to the next."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    source: MemberName = Field(
        validation_alias="from", serialization_alias="from", description="the member that has just spoken"
    )
    to: MemberName = Field(description="the member that may follow")
    when: str | None = Field(
        default=None,
        description="a condition on `text`, `data`, `error`, `task`, `state` and `workspace`; without one, always",
    )
    transform: str | None = Field(
        default=None, description="a template of the same names that makes the task of the member that follows"
    )

    @property
    def handles_failures(self) -> bool:
        """Whether its condition looks at `error`: then it is open to a member that failed."""
        return self.when is not None and ERROR in Condition(self.when).uses

    def holds(self, names: Callable[[], Names]) -> bool:
        """Whether the way is open; a condition that can't be answered names this edge."""
        try:
            return self.when is None or Condition(self.when).holds(names())
        except ExpressionFailed as error:
            raise ExpressionFailed(f"the edge from {self.source!r} to {self.to!r}: {error}") from error

    def changed(self, turn: Turn, names: Callable[[], Names]) -> Turn:
        """The turn of the member that follows, with the task that the transform makes."""
        if self.transform is None:
            return turn
        try:
            return Turn(Template(self.transform).render(names()), turn.history, turn.number)
        except ExpressionFailed as error:
            raise ExpressionFailed(f"the edge from {self.source!r} to {self.to!r}: {error}") from error


def edge_flaws(edges: Sequence[Edge]) -> list[Flaw]:
    """What is wrong with the conditions and transforms of edges."""
    found: list[Flaw] = []
    for index, edge in enumerate(edges):
        if edge.when is not None and (problem := Condition(edge.when).problem(NAMES)):
            found.append(Flaw(problem, ("edges", index, "when")))
        if edge.transform is not None and (problem := Template(edge.transform).problem(NAMES)):
            found.append(Flaw(problem, ("edges", index, "transform")))
    return found


def arrows_of(edges: Sequence[Edge]) -> tuple[Arrow, ...]:
    """Edges as they are drawn."""
    return tuple(Arrow(source=edge.source, to=edge.to, label=condition_label(edge.when)) for edge in edges)


class Trail:
    """Who had its turn and what came of it, and on which edges it may go on from there."""

    def __init__(self, task: Task, members: Members, edges: Sequence[Edge], workspace: Workspace) -> None:
        self._task, self._workspace = task, workspace
        self._edges: dict[str, list[Edge]] = {member.name: [] for member in members}
        for edge in edges:
            self._edges[edge.source].append(edge)
        self._turns = dict.fromkeys(self._edges, 0)
        self._replies: dict[str, Reply] = {}
        self._heard = Reply()
        self.failure: Failure | None = None
        self.last: str | None = None

    def take(self, member: str, reply: Reply | Failure) -> None:
        """Note what came of a member's turn."""
        self.last = member
        self._turns[member] += 1
        if isinstance(reply, Failure):
            self.failure, self._heard = reply, Reply()
        else:
            self.failure, self._heard = None, reply
            self._replies[member] = reply

    def ways_on(self) -> Iterator[Edge]:
        """The edges that are open from the member that had its turn, in order.

        After a failure these are the ones that look at `error`; if none of them is open and the member was optional,
        the ones without a condition.
        """
        own = self._edges[self.last] if self.last else []
        if self.failure is None:
            yield from (edge for edge in own if edge.holds(self.names))
            return
        handlers = [edge for edge in own if edge.handles_failures and edge.holds(self.names)]
        yield from handlers
        if not handlers and self.failure.optional:
            yield from (edge for edge in own if edge.when is None)

    def leads_on(self, member: str) -> bool:
        """Whether there are edges from this member at all."""
        return bool(self._edges[member])

    def names(self) -> Names:
        """The values that conditions may read: what members said in full."""
        replies: dict[str, JsonValue] = {name: _said(reply.full) for name, reply in self._replies.items()}
        return self._names(self._heard.full, replies)

    def told(self) -> Names:
        """The values that may go on to the next member: what others are told."""
        return self._names(self._heard, {name: _said(reply) for name, reply in self._replies.items()})

    def _names(self, heard: Reply, replies: dict[str, JsonValue]) -> Names:
        turns = cast("dict[str, JsonValue]", self._turns)
        shared = {name: self._workspace.get(name) for name in self._workspace.names()}
        return {
            "text": heard.text,
            "data": heard.data,
            ERROR: self.failure.error if self.failure else None,
            "task": self._task.text,
            "state": {"turn": sum(self._turns.values()), "turns": turns, "replies": replies},
            "workspace": {name: held.value for name, held in shared.items() if held is not None},
        }


def _said(reply: Reply) -> JsonValue:
    return {"text": reply.text, "data": reply.data}
