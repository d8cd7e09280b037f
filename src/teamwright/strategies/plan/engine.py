"""The strategy of every team that works through a plan: what is wrong with its settings, how it looks, and how it runs.

It never asks for the name of a preset: settings alone decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from pydantic import JsonValue

from teamwright.agents.agent import Context
from teamwright.errors import UsageError, nearest
from teamwright.strategies.part_results import WORK
from teamwright.strategies.plan.bound_plan import (
    bind_steps,
    decision_problem,
    evaluation_of,
    own_judge_flaws,
    risk_flaws,
)
from teamwright.strategies.plan.bound_roles import effective_roles, possible_members, role_of_step, steps_of_roles
from teamwright.strategies.plan.closing import ANSWER_KEY, closer_of
from teamwright.strategies.plan.options import ANSWER, LEAD, PlanOptions, options_with
from teamwright.strategies.plan.plan_check import own_judges, steps_flaws
from teamwright.strategies.plan.plan_run import SCOPE, PlanRun
from teamwright.strategies.plan.planned_steps import example_answer
from teamwright.strategies.plan.schedule import StepGraph
from teamwright.strategies.plan.schedule_maker import nodes_of
from teamwright.strategies.plan.steps.crew import merge_port
from teamwright.strategies.plan.steps.step_options import EVALUATE
from teamwright.strategies.plan.versions import edit_problem
from teamwright.strategies.protocol import (
    STEERABLE,
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
from teamwright.values.limits import ClosingAsk
from teamwright.values.people import TeamChange
from teamwright.values.specs.plan import Role, Step
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Turn


def drawn_team(options: PlanOptions, members: Members, roles: Mapping[str, Role], steps: Sequence[Step]) -> Diagram:
    """Draw the lead and those who work for it, with what goes between them."""
    lead = Node(id="lead", agent=options.lead_name(members), about=_duties(options))
    if options.handout == "none":
        lead = lead.changed(label="decide" if options.decide == "stepwise" else "plan")
        nodes = tuple(Node(id=name, agent=role.agent or "", label=name) for name, role in roles.items())
        arrows = tuple(Arrow(source=lead.id, to=node.id) for node in nodes)
        return Diagram(nodes=(lead, *nodes), arrows=arrows, notes=_notes(options, members))
    nodes, with_all = places(options.workers_of(members)), options.talk == "all"
    up = tuple(Arrow(source=node.id, to=lead.id) for node in nodes)
    notes = (f"{len(steps)} steps, one at a time",)
    if options.handout != "step":
        rounds = len(options.schedule_for(members).batches)
        notes = (f"{len(steps)} steps in {rounds} rounds", f"{options.width_for(members)} at once")
    if with_all:
        among = (Arrow(source=one.id, to=other.id) for one in nodes for other in nodes if one is not other)
        return Diagram(nodes=(*nodes, lead), arrows=(*among, *up), notes=notes)
    label = "hands over" if options.handout == "step" else "hands out to"
    down = (Arrow(source=lead.id, to=node.id, label=label) for node in nodes)
    return Diagram(nodes=(lead, *nodes), arrows=(*down, *up), notes=notes)


def _duties(options: PlanOptions) -> str:
    """Return what the lead does."""
    if options.handout == "step":
        return "hands over each step, and answers"
    if options.handout == "batch":
        return "puts the answer together" if options.talk == "all" else "hands out rounds, rules, and answers"
    plans = "decides step by step" if options.decide == "stepwise" else "plans"
    settles = ["settles what a discussion does not"] if options.talks else []
    return ", ".join((plans, *settles, *(["answers"] if options.lead_answers else ())))


def drawn_steps(options: PlanOptions, members: Members, steps: Sequence[Step], workers: Mapping[str, str]) -> Diagram:
    """Draw the steps and their dependencies, and the lead that answers; in one conversation they stand in a line."""
    by_id, graph = {step.id: step for step in steps}, StepGraph.from_nodes(nodes_of(steps))
    nodes = [
        Node(id=id_, agent=workers.get(id_, ""), label=by_id[id_].title, about=_about(by_id[id_], options, workers))
        for id_ in graph.order
    ]
    if options.sees == "all" and not options.talks:
        arrows = list(chain_arrows(nodes))
    else:
        arrows = [Arrow(source=need, to=id_) for id_ in graph.order for need in graph.needs[id_]]
    if options.lead_answers:
        lead = Node(id=ANSWER, agent=options.lead_name(members), about="answers")
        arrows += [Arrow(source=id_, to=lead.id) for id_ in graph.order if not graph.dependents[id_]]
        nodes.append(lead)
    return Diagram(nodes=tuple(nodes), arrows=tuple(arrows), notes=_notes(options, members))


def _notes(options: PlanOptions, members: Members) -> tuple[str, ...]:
    if options.has_one_worker:
        return (f"all by {options.workers_of(members)[0].name}",)
    reviewed = options.evaluate is not None or any(step.evaluate is not None for step in options.steps)
    risk = f"{options.risk} risk" if reviewed and options.keeps_states else ""
    most = f"at most {options.max_steps} steps" if options.is_planned_by_lead else ""
    return tuple(filter(None, (risk, most, f"{options.width_for(members)} at once", options.time_note)))


def _about(step: Step, options: PlanOptions, workers: Mapping[str, str]) -> str:
    who = ", ".join(step.experts) if step.is_shared else ""
    how = {"serial": "", "subtask_parallel": "in parts", "competitive_parallel": f"compete, {step.merge}"}
    role = step.role if step.role is not None and step.role not in (step.id, workers.get(step.id)) else ""
    owns = f"owns {', '.join(step.owns)}" if step.owns and options.sees != "all" else ""
    gives = "gives the answer" if step.id == options.answer else ""
    gate = "milestone" if step.evaluate is not None and options.evaluate is None and options.keeps_states else ""
    as_role = f"as {role}" if role else ""
    return " · ".join(filter(None, (who, how[step.parallel], as_role, condition_label(step.when), owns, gives, gate)))


FEWEST_TALKERS = 2
"""How many members it takes to talk with each other."""
MOST_IDLE = 20
"""How many members without a step are named."""


class PlanStrategy(Strategy):
    """Steps, each as soon as its own inputs are there. Presets inherit from it and change defaults."""

    name = "plan"
    version = 1
    options: type[PlanOptions] = PlanOptions  # pyright: ignore[reportIncompatibleVariableOverride] - a narrower one
    unused = ("max_turns", "on_max_turns")
    interventions = (*STEERABLE, "edit_plan", "restore_plan", "stop_step", "add_member", "remove_member")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that the steps form a graph without cycles, that there is someone for each, and how it is reviewed."""
        options = settings.read(self.options)
        if not members:
            return list(_answer_flaws(options, options.steps))
        roles, steps = _roles_of(options, members), _known_steps(options, members)
        found = [
            *steps_flaws(options.steps, options.roster(members), options, roles, options.variables),
            *_answer_flaws(options, steps),
            *_decision_flaws(options, members),
            *_source_flaws(self.name, settings, options),
            *_unused_flaws(options),
            *_status_flaws(options),
            *(_team_flaws(self.name, options, members)),
        ]
        if options.keeps_states or "risk" in options.model_fields_set:
            found += risk_flaws(options, options.steps)
        if options.evaluate is not None or any(step.evaluate is not None for step in steps):
            found += own_judge_flaws(options, steps, _authors(options, members), members)
        if options.keeps_states:
            found += [*_role_flaws(options), *_answer_judge_flaws(options, members, roles)]
        if options.steps and not (options.pool or options.is_led or options.roles):
            found += islice(_idle(options.steps, members), MOST_IDLE)
        return found

    def refusal(self, change: TeamChange) -> str | None:
        """Return why no plan can be changed so."""
        return edit_problem(change)

    def talk_problem(self, settings: Settings) -> str | None:
        """Return which setting keeps members from talking while they work on a step, and its remedy."""
        options = settings.read(self.options)
        if options.talk == "none":
            return "members of this team talk with nobody; set  talk: all"
        if options.handout != "none":
            return f"with  handout: {options.handout}  members talk in rounds of their own; set  handout: none"
        return None if options.rounds_of_talk else "with  rounds_of_talk: 0  nobody speaks; set it to 1 or more"

    def lead(self, settings: Settings, members: Members) -> str | None:
        """Return the lead, if there is one."""
        options = settings.read(self.options)
        return options.lead_name(members) if options.is_led and (members or options.lead) else None

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each step, if the plan is known, and the answer of the lead, if it gives it."""
        options = settings.read(self.options)
        steps, prefix = _known_steps(options, members), "" if options.timeout is None else f"{SCOPE}/"
        ending = f"/{WORK}" if options.timeout is not None else ""
        found = {f"{prefix}{step.id}{ending}": step.execution_tokens + step.coordination_tokens for step in steps}
        if steps and options.lead_answers:
            found[f"{prefix}{ANSWER}" if options.keeps_states else ANSWER_KEY] = 0
        return found

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the answer of the lead or of the agent that finishes, or the step that gives it, with its judges."""
        options = settings.read(self.options)
        if not members:
            return ()
        names = [options.lead_name(members)] if options.lead_answers else []
        finisher = options.finisher_name(members)
        names += [finisher] if finisher is not None else []
        if names:
            answer = [Step(id=ANSWER)] if options.lead_answers and options.keeps_states else []
            return [*(ClosingAsk(name) for name in dict.fromkeys(names)), *_reviews(answer, options)]
        steps = {step.id: step for step in _known_steps(options, members)}
        closer = steps.get(closer_of(list(steps.values()), options) or "")
        if closer is None:
            return ()
        worker = _authors(options, members)[closer.id][0]
        return [ClosingAsk(worker, 0 if options.sees == "all" else len(closer.needs)), *_reviews([closer], options)]

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the lead and its workers, or the steps and their dependencies."""
        options = settings.read(self.options)
        steps = _known_steps(options, members)
        if not steps or options.handout != "none":
            return drawn_team(options, members, _roles_of(options, members), steps)
        authors = _authors(options, members)
        return drawn_steps(
            options, members, steps, {step.id: authors[step.id][0] for step in steps if not step.is_shared}
        )

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return a plan, a change or a decision, if the turn asks for one."""
        return None if turn.output_schema is None else example_answer(turn.output_schema, turn.number)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Make the plan, work through it, and answer."""
        return await PlanRun(self.name, task, task.settings.read(self.options), members, ctx).outcome()


def _reviews(closers: Iterable[Step], options: PlanOptions) -> Iterator[ClosingAsk]:
    """Yield the asks of the judges of steps that close the work, each of whom reads one result."""
    for declared in (evaluation_of(step, options) for step in closers):
        if declared is not None:
            yield from (ClosingAsk(name, 1) for name in declared.asked for _ in range(declared.times))


def _roles_of(options: PlanOptions, members: Members) -> dict[str, Role]:
    return effective_roles(options.roles, members, options.lead_name(members) if options.is_led else None)


def _known_steps(options: PlanOptions, members: Members) -> Sequence[Step]:
    """Return the steps that are known before the run; none if the lead plans."""
    if options.steps or options.is_planned_by_lead or not members:
        return options.steps
    return steps_of_roles(_roles_of(options, members), declared=options.has_roles)


def _authors(options: PlanOptions, members: Members) -> dict[str, tuple[str, ...]]:
    """Return who may work on each step that is known before the run; the first of them is expected to."""
    steps, roster = _known_steps(options, members), options.roster(members)
    bound = bind_steps(options, _roles_of(options, members), steps, members, roster.lead).by_step
    pool = tuple(one.name for one in options.workers_of(members)) if options.pool else ()
    alone = {id_: (one.agent.name,) for id_, one in bound.items()}
    found = {one.id: one.authors(roster) if one.is_shared else alone.get(one.id, pool) for one in steps}
    return {id_: names or (id_,) for id_, names in found.items()}


def _answer_flaws(options: PlanOptions, steps: Sequence[Step]) -> Iterator[Issue]:
    ids = {step.id for step in steps}
    if options.lead_answers:
        return
    if options.answer is not None and options.answer not in ids:
        hint = nearest(options.answer, ids) if ids else "the lead decides about the steps; remove it"
        yield Issue(f"there is no step {options.answer!r}; {hint}", ("answer",))


def _decision_flaws(options: PlanOptions, members: Members) -> Iterator[Issue]:
    """Yield that the lead would decide on its own proposal, if it works on a step."""
    if not options.decides:
        return
    roster, authors = options.roster(members), _authors(options, members)
    for step in _known_steps(options, members):
        if problem := decision_problem(step, authors[step.id], roster):
            yield Issue(f"{problem}; name another  lead", ("answer",))


def _source_flaws(name: str, settings: Settings, options: PlanOptions) -> Iterator[Issue]:
    """Yield settings that need another one, or contradict each other."""
    if options.pool == ():
        yield Issue("pool: is empty; list members, write  true  for all of them, or leave it out", ("pool",))
    if not options.steps and "steps" in options.model_fields_set and not (options.is_led or options.roles):
        yield Issue("steps: is empty; write a step, or leave it out", ("steps",))
    if options.replans and not options.is_led:
        yield Issue("only a lead can plan again; name one in  lead, or remove 'replan'", ("on_failure",))
    if options.decide == "stepwise" and "on_planner_failure" in options.model_fields_set:
        text = "it says what replaces a plan that is made ahead, and this lead decides stepwise; remove it"
        yield Issue(text, ("on_planner_failure",))
    if options.steps and options.decide == "stepwise":
        yield Issue("the plan is either fixed in  steps  or decided  stepwise; remove one", ("decide",))
    if options.talks and settings.share == "output":
        yield Issue(f"{name!r} members talk to each other, so it needs  share: transcript  or  share: a2a_lite")
    if any(step.parallel == "competitive_parallel" for step in options.steps):
        try:
            merge_port()
        except UsageError as error:
            yield Issue(str(error), ("steps",))


def _unused_flaws(options: PlanOptions) -> Iterator[Issue]:
    """Yield a warning for each setting that is written and changes nothing, with what it needs."""
    reviews = options.evaluate is not None or not options.steps or any(step.evaluate for step in options.steps)
    no_lead, no_review = "no one leads here; name a  lead", "nothing is reviewed here; add  evaluate"
    no_envelope = "no envelopes are handed out; set  handout: batch"
    reasons = {
        "on_planner_failure": "" if options.is_planned_by_lead else "no lead plans here; name a  lead  and no steps",
        "create_roles": "" if options.is_planned_by_lead or options.replans else "no lead plans here; name a  lead",
        "shared_steps": "" if options.is_led else no_lead,
        "max_steps": "" if options.is_led else no_lead,
        "proposals": "" if options.is_led else no_lead,
        "rounds_of_talk": "" if options.talk != "none" else "members talk with nobody; set  talk: all",
        "run_budget": "" if options.handout == "batch" else no_envelope,
        "coordination_floor": "" if options.handout == "batch" else no_envelope,
        "revisions": "" if reviews else no_review,
        "risk": "" if reviews else no_review,
    }
    written = options.model_dump(include=options.model_fields_set, exclude_defaults=True)
    for name, reason in reasons.items():
        if reason and name in written:
            yield Issue(f"{name} changes nothing: {reason}, or remove it", (name,), is_warning=True)


def _status_flaws(options: PlanOptions) -> Iterator[Issue]:
    for index, step in enumerate(options.steps):
        if not step.is_open:
            text = f"the step {step.id!r} says status: {step.status}; a run keeps the status, leave it out"
            yield Issue(text, ("steps", index, "status"))


def _team_flaws(name: str, options: PlanOptions, members: Members) -> Iterator[Issue]:
    """Yield what is wrong with the members of a team: too few of them, or one twice."""
    names = [member.name for member in members]
    if (options.is_led or options.talk != "none") and len(set(names)) < len(names):
        yield Issue(f"{name!r} takes each member once, but one is listed twice")
    if not options.is_led:
        return
    lead = options.lead_name(members)
    others = [one for one in names if one != lead]
    is_needed = options.handout != "none" or options.decide == "stepwise"
    least = FEWEST_TALKERS if options.talk == "all" and options.handout != "none" else 1 if is_needed else 0
    if len(others) < least:
        needed = "a member" if least == 1 else f"{least} members"
        yield Issue(f"{name!r} needs {needed} besides {lead!r}, who leads", ("lead",) if options.lead else ())
    elif options.pool and lead in (worker.name for worker in options.workers_of(members)):
        yield Issue(f"{lead!r} leads, so others have to work: list them, or name another  lead", ("pool",))


def _answer_judge_flaws(options: PlanOptions, members: Members, roles: Mapping[str, Role]) -> Iterator[Issue]:
    """Yield each judge of all work that gives the answer, or may work on a step which the lead decides on or plans."""
    if options.evaluate is None:
        return
    authors, hint = {options.lead_name(members)} if options.lead_answers else set[str](), ""
    if options.decide == "stepwise":
        workers = Members(options.workers_of(members))
        able = effective_roles({}, workers) if options.create_roles else roles
        authors |= {options.lead_name(members), *possible_members(able, workers)}
    elif options.is_planned_by_lead and options.pool:
        authors |= {one.name for one in options.workers_of(members)}
        hint = "" if options.has_one_worker else ", or list those who work in  pool"
    for name in own_judges(options.evaluate.at_risk(options.risk), authors):
        yield Issue(f"{name!r} would judge its own work; name another judge{hint}", (EVALUATE,))


def _role_flaws(options: PlanOptions) -> Iterator[Issue]:
    """Yield a warning for each role that no step has."""
    used = {role_of_step(step, options.roles) for step in options.steps}
    for name in options.roles if options.steps else ():
        if name not in used:
            yield Issue(f"no step has the role {name!r}; remove it", ("roles", name), is_warning=True)


def _idle(steps: Sequence[Step], members: Members) -> Iterator[Issue]:
    """Yield a warning for each member that no step names."""
    busy = {name for step in steps for name in (*step.experts, step.role)}
    for name in dict.fromkeys(member.name for member in members):
        if name not in busy:
            text = f"no step is assigned to the member {name!r}; assign one, or remove the member"
            yield Issue(text, is_warning=True)


class Dag(PlanStrategy):
    """Each step starts as soon as its needs are settled; a skipped step emits an event.

    With `share: transcript` a step gets the results of the steps it needs, under their ids, and then the task. With
    `share: output` it gets only those results; a step without needs gets the task.
    """

    name = "dag"


class Single(PlanStrategy):
    """Runs the steps in topological order in one conversation: earlier steps and their results precede each step.

    The one member does all steps, whichever agents they name: the first of the pool, or of the team.
    """

    name = "single"
    options = options_with("SingleOptions", sees="all", pool="first", max_parallel=1)


class LeadSubagent(PlanStrategy):
    """Each step is a round: a briefing to the worker, and the result back. One worker does all steps."""

    name = "lead_subagent"
    options = options_with(
        "LeadSubagentOptions", answer=LEAD, pool="first", talk="lead", handout="step", max_parallel=1
    )
    share = "a2a_lite"


class StarTeam(PlanStrategy):
    """Rounds are the batches of the schedule, without barriers: a step waits only for its own inputs.

    In a round each worker gets the envelope of its batch and the briefing of the lead, and its result goes to the lead.
    """

    name = "star_team"
    options = options_with("StarOptions", answer=LEAD, pool=True, talk="lead", handout="batch", max_parallel=None)
    share = "a2a_lite"
    peers = True


class MeshTeam(PlanStrategy):
    """Rounds are the batches of the schedule. The lead hands them out and gives the answer."""

    name = "mesh_team"
    options = options_with("MeshOptions", answer=LEAD, pool=True, talk="all", handout="batch", max_parallel=None)
    share = "a2a_lite"
    peers = True
