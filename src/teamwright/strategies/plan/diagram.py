"""How teams that work through a plan look: their steps, or a lead and its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teamwright.strategies.plan.options import ANSWER, PlanOptions
from teamwright.strategies.plan.schedule.graph import StepGraph
from teamwright.strategies.plan.schedule.scheduler import nodes_of
from teamwright.strategies.protocol import Arrow, Diagram, Members, Node, chain_arrows, condition_label, places
from teamwright.values.specs.plan import Role, Step


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
