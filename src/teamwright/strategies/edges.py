"""Edges between members: which member may follow which, under which condition and with which task.

A condition reads the previous reply, or the kind of a failure. The message of a failure is never visible to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from pydantic import ConfigDict, Field, JsonValue

from teamwright.agents.agent import Workspace
from teamwright.errors import ExpressionFailed
from teamwright.strategies.expressions import Condition, Template
from teamwright.strategies.protocol import Arrow, Issue, Members, Task, condition_label
from teamwright.values.specs.tools import MemberName
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.value import Value

ERROR, TASK = "error", "task"
Variables = Mapping[str, JsonValue]
VARIABLES = ("text", "data", ERROR, TASK, "state", "workspace")
"""The variables that conditions and tasks of edges may read."""


class Edge(Value):
    """An edge from one member to the next."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    source: MemberName = Field(
        validation_alias="from", serialization_alias="from", description="the member that had the last turn"
    )
    to: MemberName = Field(description="the member that may be next")
    when: str | None = Field(
        default=None,
        description="a condition on `text`, `data`, `error`, `task`, `state` and `workspace`; without one, always",
    )
    task: str | None = Field(
        default=None, description="a template over the same variables that renders the task of the next member"
    )

    @property
    def handles_failures(self) -> bool:
        """Return whether the condition reads `error`: such an edge can be taken after a failure."""
        return self.when is not None and ERROR in Condition(self.when).uses

    def is_open(self, variables: Callable[[], Variables]) -> bool:
        """Return whether the edge can be taken; an error in the condition names this edge."""
        try:
            return self.when is None or Condition(self.when).holds(variables())
        except ExpressionFailed as error:
            raise ExpressionFailed(f"the edge from {self.source!r} to {self.to!r}: {error}") from error

    def with_task(self, turn: Turn, variables: Callable[[], Variables]) -> Turn:
        """Return the turn of the next member, with the task of the edge."""
        if self.task is None:
            return turn
        try:
            template = Template(self.task)
            files = turn.attachments if turn.attachments and TASK in template.uses else ()
            return Turn(template.render(variables()), turn.history, turn.number, attachments=files)
        except ExpressionFailed as error:
            raise ExpressionFailed(f"the edge from {self.source!r} to {self.to!r}: {error}") from error


def edge_flaws(edges: Sequence[Edge]) -> list[Issue]:
    """Return the problems in the conditions and tasks of edges."""
    found: list[Issue] = []
    for index, edge in enumerate(edges):
        if edge.when is not None and (problem := Condition(edge.when).problem(VARIABLES)):
            found.append(Issue(problem, ("edges", index, "when")))
        if edge.task is not None and (problem := Template(edge.task).problem(VARIABLES)):
            found.append(Issue(problem, ("edges", index, "task")))
    return found


def arrows_of(edges: Sequence[Edge]) -> tuple[Arrow, ...]:
    """Return the arrows of the diagram, one for each edge."""
    return tuple(Arrow(source=edge.source, to=edge.to, label=condition_label(edge.when)) for edge in edges)


class RouteHistory:
    """The turns taken so far with their results, and the edges that are open now."""

    def __init__(self, task: Task, members: Members, edges: Sequence[Edge], workspace: Workspace) -> None:
        self._task, self._workspace = task, workspace
        self._edges: dict[str, list[Edge]] = {member.name: [] for member in members}
        for edge in edges:
            self._edges[edge.source].append(edge)
        self._turns = dict.fromkeys(self._edges, 0)
        self._replies: dict[str, Reply] = {}
        self._last_reply = Reply()
        self.failure: Failure | None = None
        self.last: str | None = None

    def record(self, member: str, reply: Reply | Failure) -> None:
        """Record the result of a member's turn."""
        self.last = member
        self._turns[member] += 1
        if isinstance(reply, Failure):
            self.failure, self._last_reply = reply, Reply()
        else:
            self.failure, self._last_reply = None, reply
            self._replies[member] = reply

    def open_edges(self) -> Iterator[Edge]:
        """Yield the open edges from the member that had the last turn, in order.

        After a failure these are the edges that read `error`; if none of them is open and the member was optional,
        those without a condition.
        """
        own = self._edges[self.last] if self.last else []
        if self.failure is None:
            yield from (edge for edge in own if edge.is_open(self.variables))
            return
        handlers = [edge for edge in own if edge.handles_failures and edge.is_open(self.variables)]
        yield from handlers
        if not handlers and self.failure.optional:
            yield from (edge for edge in own if edge.when is None)

    def has_edges_from(self, member: str) -> bool:
        return bool(self._edges[member])

    def variables(self) -> Variables:
        """Return the variables of conditions, with the full replies of members."""
        replies: dict[str, JsonValue] = {name: _as_value(reply.full) for name, reply in self._replies.items()}
        return self._variables(self._last_reply.full, replies)

    def shared_variables(self) -> Variables:
        """Return the variables of tasks of edges: only what other members may see of replies."""
        return self._variables(self._last_reply, {name: _as_value(reply) for name, reply in self._replies.items()})

    def _variables(self, last_reply: Reply, replies: dict[str, JsonValue]) -> Variables:
        turns = cast("dict[str, JsonValue]", self._turns)
        shared = {name: self._workspace.get(name) for name in self._workspace.names()}
        return {
            "text": last_reply.text,
            "data": last_reply.data,
            ERROR: self.failure.error if self.failure else None,
            TASK: self._task.text,
            "state": {"turn": sum(self._turns.values()), "turns": turns, "replies": replies},
            "workspace": {name: entry.value for name, entry in shared.items() if entry is not None},
        }


def _as_value(reply: Reply) -> JsonValue:
    return {"text": reply.text, "data": reply.data}
