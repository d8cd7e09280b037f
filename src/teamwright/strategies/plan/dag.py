"""Runs the steps of a plan, each as soon as its own inputs are available."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from pydantic import Field

from teamwright.agents.contract.agent import Agent, Context
from teamwright.errors import nearest
from teamwright.strategies.parts import PlacedParts, part_turn
from teamwright.strategies.plan.graph import MOST_SUGGESTIONS, StepGraph
from teamwright.strategies.plan.planner import nodes_of
from teamwright.strategies.plan.step_options import (
    StepOptions,
    closing_step,
    plan_flaws,
    template_flaws,
    turn_per_step,
)
from teamwright.strategies.plan.step_outputs import StepInput
from teamwright.strategies.plan.step_runner import Prelude, StepRunner
from teamwright.strategies.protocol import (
    Arrow,
    Diagram,
    ExpectedAsks,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
    condition_label,
)
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.limits import ClosingAsk
from teamwright.values.names import NAME
from teamwright.values.specs.plan import Step
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Turn


class DagOptions(StepOptions, PlacedParts):
    """The steps, and how they run."""

    max_parallel: int = Field(default=10, ge=1, description="how many steps run at once")
    answer: str | None = Field(
        default=None, description="the step that gives the team's answer; by default the last one"
    )


class Dag(Strategy):
    """Each step starts as soon as its needs are settled; a skipped step emits an event.

    With `share: transcript` a step gets the results of the steps it needs, under their ids, and then the task. With
    `share: output` it gets only those results; a step without needs gets the task.
    """

    name = "dag"
    version = 1
    options = DagOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that the steps form a graph without cycles and each has an agent."""
        options = settings.read(DagOptions)
        found = [
            *plan_flaws(options.steps),
            *islice(_unassigned(options.steps, {member.name for member in members}), MOST_SUGGESTIONS),
            *template_flaws(options.steps),
            *_idle(options.steps, members),
        ]
        if options.answer is not None and options.answer not in (ids := {step.id for step in options.steps}):
            found.append(Issue(f"there is no step {options.answer!r}; {nearest(options.answer, ids)}", ("answer",)))
        return found

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each step."""
        return turn_per_step(self, settings)

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the step that gives the answer, if there is one such step."""
        options = settings.read(DagOptions)
        closer = next((step for step in options.steps if step.id == closing_step(options.steps, options.answer)), None)
        return () if closer is None else [ClosingAsk(closer.agent or closer.id, len(closer.needs))]

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the steps and their dependencies."""
        options = settings.read(DagOptions)
        steps = {step.id: step for step in options.steps}
        graph = StepGraph.from_nodes(nodes_of(options.steps))
        nodes = [
            Node(id=id_, agent=steps[id_].agent or id_, label=id_, about=_about(steps[id_], options.answer))
            for id_ in graph.order
        ]
        arrows = [Arrow(source=need, to=id_) for id_ in graph.order for need in graph.needs[id_]]
        return Diagram(nodes=tuple(nodes), arrows=tuple(arrows), notes=(f"{options.max_parallel} at once",))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Run the steps; the messages of the outcome are in topological order, the answer last."""
        options, talk = task.settings.read(DagOptions), TeamConversation(task)
        workers, closer = NamedWorkers(task, members), closing_step(options.steps, options.answer)
        runner = StepRunner(task, options.steps, options, workers, closing=closer)
        runner.evaluate_steps(members)
        await runner.run(options.max_parallel, ctx)
        replies, answer = runner.results.replies, options.answer
        order = runner.graph.order
        if answer in replies:
            order = [*(step for step in order if step != answer), answer]
        if ended := runner.results.finish(talk, order, closes=runner.outputs.has_closed):
            return ended
        if not replies:
            talk.warnings.append("every step was skipped")
        elif answer is not None and answer not in replies:
            talk.warnings.append(f"the step {answer!r}, which gives the answer, was skipped")
        return talk.ended("done").changed(data=runner.outputs.answer_data(answer))


class NamedWorkers:
    """Assigns each step to the agent it names, or else to the member with the same name as the step."""

    def __init__(self, task: Task, members: Members) -> None:
        self._task, self._members = task, members

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the agent that the step names."""
        return self._members.named(step.agent or step.id)

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return a turn with the results of the needed steps and the task."""
        return part_turn(
            self._task, step_input.number, step_input.inputs, step_input.output, own_task=step_input.own_task
        )

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return None: steps start at once."""

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Do nothing."""


def _about(step: Step, answer: str | None) -> str:
    owns = f"owns {', '.join(step.owns)}" if step.owns else ""
    return " · ".join(filter(None, (condition_label(step.when), owns, "gives the answer" if step.id == answer else "")))


def _idle(steps: Sequence[Step], members: Members) -> Iterator[Issue]:
    """Yield a warning for each member that no step names."""
    busy = {step.agent or step.id for step in steps}
    for name in dict.fromkeys(member.name for member in members):
        if name not in busy:
            text = f"no step is assigned to the member {name!r}; assign one, or remove the member"
            yield Issue(text, is_warning=True)


def _unassigned(steps: Sequence[Step], names: set[str]) -> Iterator[Issue]:
    for index, step in enumerate(steps):
        if step.agent is None and step.id not in names and NAME.fullmatch(step.id):
            text = f"the step {step.id!r} names no agent, and no member has its name; {nearest(step.id, names)}"
            yield Issue(text, ("steps", index, "id"))
