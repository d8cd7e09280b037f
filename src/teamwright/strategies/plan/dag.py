"""Steps that stand on each other: each starts when its own inputs are there, whatever the others do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from pydantic import Field

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.errors import nearest
from teamwright.planning.graph import MOST_SUGGESTIONS, StepGraph
from teamwright.planning.schedule.planner import nodes_of
from teamwright.strategies.diagram import Arrow, Node, Sketch, condition_label
from teamwright.strategies.parallel.parts import part_turn
from teamwright.strategies.plan.step_options import StepOptions, plan_flaws, template_flaws, turn_per_step
from teamwright.strategies.plan.step_runner import Flow, Opening, StepInput
from teamwright.strategies.protocol import Flaw, Members, Outlook, Settings, Strategy, Task
from teamwright.strategies.talk import Talk
from teamwright.values.names import NAME
from teamwright.values.results import Outcome
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Turn


class DagOptions(StepOptions):
    """The steps, and how they are worked through."""

    max_parallel: int = Field(default=10, ge=1, description="how many steps are worked on at once")
    answer: str | None = Field(default=None, description="the step that gives the team's answer; else the last one")


class Dag(Strategy):
    """Steps are worked on as soon as what they need is there; a step that is skipped is told as a fact.

    With `share: transcript` a step is told what the steps it needs came to, under their ids, and then the task. With
    `share: output` only what those came to; a step without needs is told the task.
    """

    name = "dag"
    version = 2
    options = DagOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """Steps must make a graph without circles, and each must have somebody to work on it."""
        options = settings.read(DagOptions)
        found = [
            *plan_flaws(options.steps),
            *islice(_unassigned(options.steps, {member.name for member in members}), MOST_SUGGESTIONS),
            *template_flaws(options.steps),
            *_idle(options.steps, members),
        ]
        if options.answer is not None and options.answer not in (ids := {step.id for step in options.steps}):
            found.append(Flaw(f"there is no step {options.answer!r}; {nearest(options.answer, ids)}", ("answer",)))
        return found

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """An ask for each step."""
        return turn_per_step(self, settings)

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """The steps, and what they need."""
        options = settings.read(DagOptions)
        steps = {step.id: step for step in options.steps}
        graph = StepGraph.of(nodes_of(options.steps))
        nodes = [
            Node(id=id_, agent=steps[id_].agent or id_, label=id_, about=_about(steps[id_], options.answer))
            for id_ in graph.order
        ]
        arrows = [Arrow(source=need, to=id_) for id_ in graph.order for need in graph.needs[id_]]
        return Sketch(nodes=tuple(nodes), arrows=tuple(arrows), notes=(f"{options.max_parallel} at once",))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Work through the steps; what they said stands in topological order, the answer last."""
        options, talk = task.settings.read(DagOptions), Talk(task)
        flow = Flow(task, options.steps, options, ByName(task, members))
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


class ByName:
    """Each step is the work of whom it names, or of the member that is called like it, and nobody says more."""

    def __init__(self, task: Task, members: Members) -> None:
        self._task, self._members = task, members

    def worker(self, step: Step, ctx: Context) -> Agent:
        """Whom it names."""
        return self._members.named(step.agent or step.id)

    def turn(self, part: StepInput) -> Turn:
        """What the steps it needs came to, and its task."""
        return part_turn(self._task, part.number, part.inputs, part.output, own=part.own)

    def opening(self, step: Step, worker: Agent) -> Opening | None:
        """Nothing."""

    async def after(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Nothing."""


def _about(step: Step, answer: str | None) -> str:
    owns = f"owns {', '.join(step.owns)}" if step.owns else ""
    return " · ".join(filter(None, (condition_label(step.when), owns, "gives the answer" if step.id == answer else "")))


def _idle(steps: Sequence[Step], members: Members) -> Iterator[Flaw]:
    """Members that no step names: they would never be asked."""
    busy = {step.agent or step.id for step in steps}
    for name in dict.fromkeys(member.name for member in members):
        if name not in busy:
            text = f"no step is the work of the member {name!r}; give it one, or take it out of the members"
            yield Flaw(text, is_warning=True)


def _unassigned(steps: Sequence[Step], names: set[str]) -> Iterator[Flaw]:
    for index, step in enumerate(steps):
        if step.agent is None and step.id not in names and NAME.fullmatch(step.id):
            text = f"the step {step.id!r} names no agent, and no member is called like it; {nearest(step.id, names)}"
            yield Flaw(text, ("steps", index, "id"))
