"""One member works through a whole plan, in one conversation. Nobody coordinates."""

from __future__ import annotations

from pydantic import Field

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.planning.graph import StepGraph
from teamwright.planning.schedule.planner import nodes_of
from teamwright.strategies.diagram import Node, Sketch, chain_arrows, condition_label
from teamwright.strategies.parallel.parts import part_turn
from teamwright.strategies.plan.step_options import ShapeOptions, plan_flaws, template_flaws, turn_per_step
from teamwright.strategies.plan.step_runner import Flow, Opening, StepInput
from teamwright.strategies.protocol import Flaw, Members, Outlook, Settings, Strategy, Task
from teamwright.strategies.talk import Talk
from teamwright.values.events.team import TeamPlanned
from teamwright.values.results import Outcome
from teamwright.values.specs.manifest import MemberName
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import Conversation, Message
from teamwright.values.turns.turn import Turn


class SingleOptions(ShapeOptions):
    """The steps, and who works on them."""

    member: MemberName | None = Field(default=None, description="who works on all of them; else the first member")


class Single(Strategy):
    """Steps in topological order, each in the same conversation: what was asked and answered before stands above it.

    Whoever steps name, the one member does the work.
    """

    name = "single"
    version = 1
    options = SingleOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """Steps must make a graph without circles, with tasks and conditions that can be read."""
        steps = settings.read(SingleOptions).steps
        return [*plan_flaws(steps), *template_flaws(steps)]

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """An ask for each step."""
        return turn_per_step(self, settings)

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """The steps in a line."""
        options = settings.read(SingleOptions)
        steps, name = {step.id: step for step in options.steps}, _worker(options, members).name
        order = StepGraph.of(nodes_of(options.steps)).order
        nodes = tuple(Node(id=id_, agent=name, label=id_, about=condition_label(steps[id_].when)) for id_ in order)
        return Sketch(nodes=nodes, arrows=chain_arrows(nodes), notes=(f"all by {name}",))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Work through the steps; the last one gives the answer."""
        options, talk = task.settings.read(SingleOptions), Talk(task)
        worker = _worker(options, members)
        flow = Alone(task, options, worker).flow
        count = len(options.steps)
        await ctx.emit(
            TeamPlanned(
                topology=self.name, steps=count, rounds=count, width=1, workers=(worker.name,), reason=options.reason
            )
        )
        await flow.run(1, ctx)
        if ended := flow.parts.end(talk, flow.graph.order):
            return ended
        if not flow.parts.replies:
            talk.warnings.append("every step was skipped")
        return talk.ended("done")


def _worker(options: SingleOptions, members: Members) -> Agent:
    return members[0] if options.member is None else members.named(options.member)


class Alone:
    """The crew of one, and its conversation."""

    def __init__(self, task: Task, options: SingleOptions, worker: Agent) -> None:
        self.flow = Flow(task, options.steps, options, self, in_order=True)
        self._task, self._worker = task, worker
        self._said = Conversation()
        self._said.extend(task.history)
        self._knows_the_task = False
        self._asked = task.text

    def worker(self, step: Step, ctx: Context) -> Agent:
        """The one."""
        return self._worker

    def turn(self, part: StepInput) -> Turn:
        """What was asked and answered before, and last the step's own task, or else the team's."""
        if self._task.settings.share == "output":
            return part_turn(self._task, part.number, part.inputs, part.output, own=part.own)
        if part.own is not None and not self._knows_the_task:
            self._note(self._task.text)
        self._knows_the_task = True
        self._asked = self._task.text if part.own is None else part.own
        return Turn(self._asked, self._said.history(), part.number)

    def opening(self, step: Step, worker: Agent) -> Opening | None:
        """Nothing."""

    async def after(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Go on with the conversation. What failed was never asked."""
        if reply := self.flow.parts.replies.get(step.id):
            self._note(self._asked)
            self._said.extend(reply.messages)

    def _note(self, asked: str) -> None:
        self._said.append(Message(name="user", content=asked, role="user"))
