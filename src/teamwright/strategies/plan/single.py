"""One member works through the whole plan in one conversation, without coordination."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.parts import part_turn
from teamwright.strategies.plan.graph import StepGraph
from teamwright.strategies.plan.planner import nodes_of
from teamwright.strategies.plan.step_options import ShapeOptions, plan_flaws, template_flaws, turn_per_step
from teamwright.strategies.plan.step_outputs import StepInput
from teamwright.strategies.plan.step_runner import Prelude, StepRunner
from teamwright.strategies.protocol import (
    Diagram,
    ExpectedAsks,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
    chain_arrows,
    condition_label,
)
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.events.team import TeamPlanned
from teamwright.values.limits import ClosingAsk
from teamwright.values.specs.plan import Step
from teamwright.values.specs.tools import MemberName
from teamwright.values.turns.messages import Conversation, Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Turn


class SingleOptions(ShapeOptions):
    """The steps, and the member that works on them."""

    member: MemberName | None = Field(
        default=None, description="the member that works on all steps; by default the first"
    )


class Single(Strategy):
    """Runs the steps in topological order in one conversation: earlier steps and their results precede each step.

    The one member does all steps, whichever agents they name.
    """

    name = "single"
    version = 1
    options = SingleOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that the steps form a graph without cycles, with valid tasks and conditions."""
        steps = settings.read(SingleOptions).steps
        return [*plan_flaws(steps), *template_flaws(steps)]

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each step."""
        return turn_per_step(self, settings)

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the last step, which gives the answer."""
        steps = settings.read(SingleOptions).steps
        return [ClosingAsk(_worker(settings.read(SingleOptions), members).name)] if len(steps) > 1 else ()

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the steps in a line."""
        options = settings.read(SingleOptions)
        steps, name = {step.id: step for step in options.steps}, _worker(options, members).name
        order = StepGraph.from_nodes(nodes_of(options.steps)).order
        nodes = tuple(Node(id=id_, agent=name, label=id_, about=condition_label(steps[id_].when)) for id_ in order)
        return Diagram(nodes=nodes, arrows=chain_arrows(nodes), notes=(f"all by {name}",))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Run the steps; the last one gives the answer."""
        options, talk = task.settings.read(SingleOptions), TeamConversation(task)
        worker = _worker(options, members)
        runner = SingleWorker(task, options, worker).runner
        runner.evaluate_steps(members)
        count = len(options.steps)
        await ctx.emit(
            TeamPlanned(
                topology=self.name, steps=count, rounds=count, width=1, workers=(worker.name,), reason=options.reason
            )
        )
        await runner.run(1, ctx)
        if ended := runner.results.finish(talk, runner.graph.order, closes=runner.outputs.has_closed):
            return ended
        if not runner.results.replies:
            talk.warnings.append("every step was skipped")
        return talk.ended("done")


def _worker(options: SingleOptions, members: Members) -> Agent:
    return members[0] if options.member is None else members.named(options.member)


class SingleWorker:
    """The hooks of a single worker, with its conversation."""

    def __init__(self, task: Task, options: SingleOptions, worker: Agent) -> None:
        last = StepGraph.from_nodes(nodes_of(options.steps)).order[-1] if len(options.steps) > 1 else None
        self.runner = StepRunner(task, options.steps, options, self, in_order=True, closing=last)
        self._task, self._worker = task, worker
        self._conversation = Conversation()
        self._conversation.extend(task.history)
        self._has_team_task = False
        self._last_task = task.text
        self._unsent_files = self._last_files = task.attachments
        """The files of the task until they are in the conversation, and those of the last turn."""

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the one worker."""
        return self._worker

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return a turn with the earlier steps and results, then the task of the step or else of the team."""
        if self._task.settings.share == "output":
            return part_turn(
                self._task, step_input.number, step_input.inputs, step_input.output, own_task=step_input.own_task
            )
        if step_input.own_task is not None and not self._has_team_task:
            self._conversation.append(self._task.message)
            self._unsent_files = ()
        self._has_team_task = True
        self._last_task = self._task.text if step_input.own_task is None else step_input.own_task
        self._last_files = self._unsent_files if step_input.own_task is None else ()
        history = self._conversation.history()
        return Turn(self._last_task, history, step_input.number, attachments=self._last_files)

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return None: steps start at once."""

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Add the step to the conversation, unless it failed."""
        if reply := self.runner.results.replies.get(step.id):
            said = Message(name="user", content=self._last_task, role="user", attachments=self._last_files)
            self._conversation.append(said)
            self._conversation.extend(reply.messages)
            if self._last_files:
                self._unsent_files = ()
