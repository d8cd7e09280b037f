"""The strategy of every team that works through a plan: what is wrong with its settings, how it looks, and how it runs.

It never asks for the name of a preset: settings alone decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from teamwright.agents.contract.agent import Context
from teamwright.errors import nearest
from teamwright.strategies.plan.conflicts import ConflictResolver
from teamwright.strategies.plan.exchange import Exchange
from teamwright.strategies.plan.graph import MOST_SUGGESTIONS, StepGraph
from teamwright.strategies.plan.lead import ANSWER_KEY, Lead
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.planner import nodes_of
from teamwright.strategies.plan.rounds import BriefedRounds, Round, rounds_of
from teamwright.strategies.plan.step_options import closing_step, plan_flaws, template_flaws
from teamwright.strategies.plan.step_runner import StepHooks, StepRunner
from teamwright.strategies.plan.workers import OneConversation, WorkerPool, Workers
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
    chain_arrows,
    condition_label,
    places,
)
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.events.team import TeamPlanned
from teamwright.values.limits import ClosingAsk
from teamwright.values.names import NAME
from teamwright.values.specs.plan import Step
from teamwright.values.turns.results import Outcome

FEWEST_TALKERS = 2
"""How many members it takes to talk with each other."""


class PlanStrategy(Strategy):
    """Steps, each as soon as its own inputs are there. Presets inherit from it and change defaults."""

    name = "plan"
    version = 1
    options: type[PlanOptions] = PlanOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that the steps form a graph without cycles, and that there is someone for each."""
        options = settings.read(self.options)
        found = [*plan_flaws(options.steps), *template_flaws(options.steps), *_answer_flaws(options)]
        if members:
            found += _led_flaws(self.name, options, members) if options.is_led else ()
            if not (options.pool or options.has_one_worker):
                found += islice(_unassigned(options.steps, {member.name for member in members}), MOST_SUGGESTIONS)
                found += _idle(options.steps, members)
        return found

    def lead(self, settings: Settings, members: Members) -> str | None:
        """Return the lead, if there is one."""
        options = settings.read(self.options)
        return options.lead_of(members).name if options.is_led else None

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each step and, if it answers, of the lead."""
        options = settings.read(self.options)
        steps = {step.id: step.execution_tokens + step.coordination_tokens for step in options.steps}
        return steps | ({ANSWER_KEY: 0} if options.is_led else {})

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the answer of the lead, or the step that gives it, if there is one such step."""
        options = settings.read(self.options)
        if options.is_led:
            return [ClosingAsk(options.lead_of(members).name)]
        closer = next((step for step in options.steps if step.id == _closer(options)), None)
        if closer is None:
            return ()
        worker = _sole_worker(options, members) or closer.agent or closer.id
        return [ClosingAsk(worker, 0 if options.sees == "all" else len(closer.needs))]

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the lead and its workers, or the steps and their dependencies."""
        options = settings.read(self.options)
        return _drawn_team(options, members) if options.is_led else _drawn_steps(options, members)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Run the steps, and let the lead or a step answer."""
        options = task.settings.read(self.options)
        if options.is_led:
            return await LedPlan(self.name, task, options, members).run(ctx)
        return await _run_steps(self.name, task, options, members, ctx)


async def _run_steps(name: str, task: Task, options: PlanOptions, members: Members, ctx: Context) -> Outcome:
    """Run a plan without a lead; the messages of the outcome are in topological order, the answer last."""
    talk, answer = TeamConversation(task), options.answer
    sole = _sole_worker(options, members)
    hooks: StepHooks
    if options.sees == "all":
        hooks = OneConversation(task, options, members)
        runner = hooks.runner
    else:
        width = options.width_for(members)
        pool = WorkerPool(options.workers_of(members), width, members) if options.pool else None
        hooks = Workers(task, members, pool)
        runner = StepRunner(task, options.steps, options, hooks, closing=_closer(options))
    runner.evaluate_steps(members)
    if sole is not None:
        count = len(options.steps)
        await ctx.emit(
            TeamPlanned(topology=name, steps=count, rounds=count, width=1, workers=(sole,), reason=options.reason)
        )
    await runner.run(options.width_for(members), ctx)
    replies, order = runner.results.replies, runner.graph.order
    if answer in replies:
        order = [*(step for step in order if step != answer), answer]
    if ended := runner.results.finish(talk, order, closes=runner.has_closed):
        return ended
    if not replies:
        talk.warnings.append("every step was skipped")
    elif answer is not None and answer not in replies:
        talk.warnings.append(f"the step {answer!r}, which gives the answer, was skipped")
    ended = talk.ended("done")
    return ended if options.sees == "all" else ended.changed(data=runner.answer_data(answer))


class LedPlan:
    """One run of a plan with a lead, which hands out what it is to hand out, and answers."""

    def __init__(self, name: str, task: Task, options: PlanOptions, members: Members) -> None:
        self._name, self._task, self._options, self._members = name, task, options, members
        self._lead = Lead(options.lead_of(members), task)
        named = None if options.has_one_worker else members
        self._pool = WorkerPool(options.workers_of(members), options.width_for(members), named)

    async def run(self, ctx: Context) -> Outcome:
        """Run the rounds, and let the lead answer."""
        options, schedule = self._options, self._options.schedule_for(self._members)
        await ctx.emit(self._planned(len(schedule.batches), schedule.total_tokens))
        if options.handout == "step":
            steps = {step.id: step for step in options.steps}
            rounds: Sequence[Round] = [Round(at, [steps[id_]]) for at, id_ in enumerate(schedule.order, start=1)]
        else:
            rounds = rounds_of(schedule, options, self._lead.agent, self._task, ctx)
        runner = await (self._exchange(rounds, ctx) if options.talk == "all" else self._brief(rounds, ctx))
        return await self._lead.finish(runner, ctx)

    async def _brief(self, rounds: Sequence[Round], ctx: Context) -> StepRunner:
        """Let the lead hand out each round before it starts, and settle conflicts; no round waits for another."""
        options = self._options
        briefed = BriefedRounds(self._task, options, self._lead, self._pool, rounds)
        if options.talk == "lead" and options.handout == "batch":
            resolver = ConflictResolver(self._task, briefed, options.steps, options.rounds_of_talk)
            briefed.on_result = resolver.resolve
        briefed.runner.evaluate_steps(self._members)
        await briefed.runner.run(self._pool.size, ctx)
        briefed.report_to_lead()
        return briefed.runner

    async def _exchange(self, rounds: Sequence[Round], ctx: Context) -> StepRunner:
        """Let the workers exchange messages after each round, which the next one waits for."""
        mesh = Exchange(self._task, self._options, self._lead, self._pool)
        mesh.runner.evaluate_steps(self._members)
        for round_ in rounds:
            await mesh.run_round(round_, ctx)
            if mesh.runner.results.is_over:
                break
            for number in range(1, self._options.rounds_of_talk + 1):
                await mesh.exchange(round_, number, ctx)
            if self._lead.ended is not None:
                break
        return mesh.runner

    def _planned(self, rounds: int, tokens: int) -> TeamPlanned:
        options, workers = self._options, self._options.workers_of(self._members)
        by_step = options.handout == "step"
        return TeamPlanned(
            topology=self._name,
            steps=len(options.steps),
            rounds=len(options.steps) if by_step else rounds,
            width=options.width_for(self._members),
            lead=self._lead.agent.name,
            workers=tuple(worker.name for worker in workers),
            tokens=0 if by_step else tokens,
            reason=options.reason,
        )


def _closer(options: PlanOptions) -> str | None:
    """Return the step that closes the work of a team without a lead; in one conversation it is the last one."""
    if options.sees != "all":
        return closing_step(options.steps, options.answer)
    return StepGraph.from_nodes(nodes_of(options.steps)).order[-1] if len(options.steps) > 1 else None


def _sole_worker(options: PlanOptions, members: Members) -> str | None:
    """Return the name of the one member that works on every step, if it is so."""
    return options.workers_of(members)[0].name if options.has_one_worker else None


def _drawn_team(options: PlanOptions, members: Members) -> Diagram:
    """Draw the lead and its workers, with what goes between them."""
    nodes, with_all = places(options.workers_of(members)), options.talk == "all"
    about = {"none": "puts the answer together", "step": "hands over each step, and answers"}
    text = "hands out rounds, rules, and answers" if options.handout == "batch" and not with_all else ""
    lead = Node(id="lead", agent=options.lead_of(members).name, about=text or about.get(options.handout, about["none"]))
    up = tuple(Arrow(source=node.id, to=lead.id) for node in nodes)
    notes = (f"{len(options.steps)} steps, one at a time",)
    if options.handout != "step":
        rounds = len(options.schedule_for(members).batches)
        notes = (f"{len(options.steps)} steps in {rounds} rounds", f"{options.width_for(members)} at once")
    if with_all:
        among = (Arrow(source=one.id, to=other.id) for one in nodes for other in nodes if one is not other)
        return Diagram(nodes=(*nodes, lead), arrows=(*among, *up), notes=notes)
    label = "hands over" if options.handout == "step" else "hands out to"
    down = (Arrow(source=lead.id, to=node.id, label=label) for node in nodes)
    return Diagram(nodes=(lead, *nodes), arrows=(*down, *up), notes=notes)


def _drawn_steps(options: PlanOptions, members: Members) -> Diagram:
    """Draw the steps and their dependencies; in one conversation they stand in a line."""
    steps, sole = {step.id: step for step in options.steps}, _sole_worker(options, members)
    graph = StepGraph.from_nodes(nodes_of(options.steps))
    nodes = tuple(
        Node(id=id_, agent=sole or steps[id_].agent or id_, label=id_, about=_about(steps[id_], options))
        for id_ in graph.order
    )
    if options.sees == "all":
        arrows = chain_arrows(nodes)
    else:
        arrows = tuple(Arrow(source=need, to=id_) for id_ in graph.order for need in graph.needs[id_])
    note = f"all by {sole}" if sole else f"{options.width_for(members)} at once"
    return Diagram(nodes=nodes, arrows=arrows, notes=(note,))


def _about(step: Step, options: PlanOptions) -> str:
    owns = f"owns {', '.join(step.owns)}" if step.owns and options.sees != "all" else ""
    gives = "gives the answer" if step.id == options.answer else ""
    return " · ".join(filter(None, (condition_label(step.when), owns, gives)))


def _answer_flaws(options: PlanOptions) -> Iterator[Issue]:
    ids = {step.id for step in options.steps}
    if options.answer is not None and options.answer not in ids:
        yield Issue(f"there is no step {options.answer!r}; {nearest(options.answer, ids)}", ("answer",))


def _led_flaws(name: str, options: PlanOptions, members: Members) -> Iterator[Issue]:
    """Yield what is wrong with the members of a team with a lead: too few of them, or one twice."""
    lead, workers = options.lead_of(members), options.workers_of(members)
    others = [member for member in members if member.name != lead.name]
    least = FEWEST_TALKERS if options.talk == "all" else 1
    if len(others) < least:
        needed = "a member" if least == 1 else f"{least} members"
        yield Issue(f"{name!r} needs {needed} besides {lead.name!r}, who leads")
    if len({worker.name for worker in others}) < len(others):
        yield Issue(f"{name!r} takes each member once, but one is listed twice")
    if lead.name in (worker.name for worker in workers):
        yield Issue(f"{lead.name!r} leads, so another member has to work", ("pool",))


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
