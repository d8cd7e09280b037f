"""Steps that stand on each other: each starts when its own inputs are there, whatever the others do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from pydantic import Field

from teamwright.agents.protocol import Context
from teamwright.errors import nearest
from teamwright.planning.graph import MOST_SUGGESTIONS, Graph, faults
from teamwright.strategies.conditions import Condition
from teamwright.strategies.flow import KNOWN, Flow, Step, nodes_of
from teamwright.strategies.parts import FailurePolicy
from teamwright.strategies.protocol import Flaw, Members, Settings, Talk, Task
from teamwright.strategies.sketch import Arrow, Node, Sketch, when
from teamwright.strategies.templates import Template
from teamwright.values.results import Outcome


class DagOptions(FailurePolicy):
    """The steps, and how they are worked through."""

    steps: tuple[Step, ...] = Field(min_length=1, description="the steps, in any order")
    max_parallel: int = Field(default=10, ge=1, description="how many steps are worked on at once")
    answer: str | None = Field(default=None, description="the step that gives the team's answer; else the last one")


class Dag:
    """Steps are worked on as soon as what they need is there; a step that is skipped is told as a fact.

    With `share: transcript` a step is told what the steps it needs came to, under their ids, and then the task. With
    `share: output` only what those came to; a step without needs is told the task.
    """

    name = "dag"
    version = 1
    options = DagOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """Steps must make a graph without circles, and each must have somebody to work on it."""
        options = settings.read(DagOptions)
        found = [
            Flaw(one.text, ("steps", one.step, "id") if one.need is None else ("steps", one.step, "needs", one.need))
            for one in faults(nodes_of(options.steps))
        ]
        found += islice(_unassigned(options.steps, {member.name for member in members}), MOST_SUGGESTIONS)
        for index, step in enumerate(options.steps):
            if step.when is not None and (problem := Condition(step.when).problem(KNOWN)):
                found.append(Flaw(problem, ("steps", index, "when")))
            if step.task is not None and (problem := Template(step.task).problem(KNOWN)):
                found.append(Flaw(problem, ("steps", index, "task")))
        if options.answer is not None and options.answer not in (ids := {step.id for step in options.steps}):
            found.append(Flaw(f"there is no step {options.answer!r}; {nearest(options.answer, ids)}", ("answer",)))
        return found

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """The steps, and what they need."""
        options = settings.read(DagOptions)
        steps = {step.id: step for step in options.steps}
        graph = Graph.of(nodes_of(options.steps))
        nodes = [
            Node(id=id_, agent=steps[id_].agent or id_, label=id_, about=_about(steps[id_], options.answer))
            for id_ in graph.order
        ]
        arrows = [Arrow(source=need, to=id_) for id_ in graph.order for need in graph.needs[id_]]
        return Sketch(nodes=tuple(nodes), arrows=tuple(arrows), notes=(f"{options.max_parallel} at once",))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Work through the steps; what they said stands in topological order, the answer last."""
        options, talk = task.settings.read(DagOptions), Talk(task)
        flow = Flow(task, options.steps, options, members)
        await flow.run(options.max_parallel, ctx)
        replies, answer = flow.parts.replies, options.answer
        order = flow.graph.order
        if answer in replies:
            order = [*(step for step in order if step != answer), answer]
        if ended := flow.parts.end(talk, order):
            return ended
        if not replies:
            talk.warnings.append("every step was skipped")
        elif answer is not None and answer not in replies:
            talk.warnings.append(f"the step {answer!r}, which gives the answer, was skipped")
        return talk.ended("done").changed(data=flow.data(answer))


def _about(step: Step, answer: str | None) -> str:
    return " · ".join(filter(None, (when(step.when), "gives the answer" if step.id == answer else "")))


def _unassigned(steps: Sequence[Step], names: set[str]) -> Iterator[Flaw]:
    for index, step in enumerate(steps):
        if step.agent is None and step.id not in names:
            text = f"the step {step.id!r} names no agent, and no member is called like it; {nearest(step.id, names)}"
            yield Flaw(text, ("steps", index, "id"))
