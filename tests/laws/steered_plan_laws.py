"""What must hold where people steer a plan, members talk, models are exchanged and debates are decided.

Read from the record of a run, and from what its members were asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from teamwright.strategies.plan.options import ANSWER
from teamwright.strategies.plan.plan_change import PlanChange, change_between, plan_difference, step_fields
from teamwright.strategies.plan.versions import read_edit
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentReplied
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunApplied
from teamwright.values.events.team import (
    StepSkipped,
    TeamHandoff,
    TeamMessage,
    TeamPlanChanged,
    TeamPlanStatus,
    TeamStepAssigned,
    TeamStepCompleted,
    TeamStepFailed,
)
from teamwright.values.people import EditPlan, RemoveMember, RestorePlan, StopStep
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.results import RunResult
from tests.laws.plan_laws import TeamLog, logs_of, step_of
from tests.laws.plan_members import Desk, Said
from tests.laws.random_plans import PlanCase

WHOLE = ("completed", "done")
"""The ending of a run that reached everything."""
MAY_HAVE = {"writer": ("a",), "deep": ("b", "c")}
"""The members that may have the roles of `random_plans`."""


def check_steering(case: PlanCase, desk: Desk, events: Sequence[Event], result: RunResult) -> None:
    """Check all laws of one whole record, of which `desk` has seen the last part."""
    (log,) = [one for one in logs_of(events) if one.scope == "t"]
    ids = {ANSWER, *(step.id for plan in plans_of(case, log) for step in plan.steps)}
    check_versions_made(case, log)
    check_stopped(case, log, ids, result)
    check_plan_ends(log, result)
    check_leavers(log, ids)
    check_workers(case, log)
    check_models(desk.stronger, log, ids)
    check_reached(case, log, ids, result)
    check_answer(log, ids)
    check_decision(case, log, result)
    check_limits(case, log, ids)
    check_talk(case, desk.said, log, ids)


def plans_of(case: PlanCase, log: TeamLog) -> list[Plan]:
    """The versions of the plan, the first one from the settings if they have it."""
    fixed = case.options.get("steps")
    first = [Plan.model_validate({"steps": fixed})] if fixed else []
    return [*first, *(Plan.model_validate(fact.plan) for fact in log.facts(TeamPlanChanged))]


def check_versions_made(case: PlanCase, log: TeamLog) -> None:
    """Check that what a person edited or restored is the plan from then on, as far as it had not begun."""
    plans = {plan.version: plan for plan in plans_of(case, log)[:1]}
    due: list[EditPlan | RestorePlan] = []
    for event in log.events:
        match event.fact:
            case RunApplied(intervention=EditPlan() | RestorePlan() as change):
                due.append(change)
            case TeamPlanChanged(plan=data, by=by, reason=reason):
                after = Plan.model_validate(data)
                if due and not by and not reason.endswith("left"):
                    change = due.pop(0)
                    wanted = _edited(change, plans) if isinstance(change, EditPlan) else plans.get(change.plan_version)
                    if wanted is not None:
                        check_as_wanted(wanted, after)
                    check_pinned(plans.get(after.version - 1), after)
                plans[after.version] = after
            case _:
                pass
    assert not due, "what a person changed is in no version of the plan"


def _edited(edit: EditPlan, plans: dict[int, Plan]) -> PlanChange | None:
    """What an edit puts and removes: of a whole plan, what differs from the version that the person saw."""
    found = read_edit(edit.plan)
    if not isinstance(found, Plan):
        return found if isinstance(found, PlanChange) else None
    seen = plans.get(found.version)
    if seen is None:
        return None
    return change_between(seen, found)


def check_as_wanted(wanted: PlanChange | Plan, after: Plan) -> None:
    """Check that a plan has the steps that a person wants; if they are the whole plan, no other that has not begun."""
    steps = wanted.steps if isinstance(wanted, Plan) else wanted.put
    for step in steps:
        now = after.by_id.get(step.id)
        assert now is not None, f"{step.id} is missing in {after}"
        assert not now.is_open or step_fields(now) == step_fields(step), (now, step)
    if isinstance(wanted, Plan):
        unwanted = {one.id for one in after.steps if one.is_open} - {step.id for step in steps}
    else:
        unwanted = set(wanted.remove) & set(after.by_id)
    assert not unwanted, f"{unwanted} are in the plan, and should not be"
    assert all(after.variables.get(name) == value for name, value in wanted.variables.items())


def check_pinned(before: Plan | None, after: Plan) -> None:
    """Check that whatever a person changed is pinned."""
    if before is not None:
        found = plan_difference(before, after)
        assert set(found.steps) <= set(after.pins.steps), f"{found.steps} are not pinned"
        assert {one.name for one in found.variables} <= set(after.pins.variables)


def check_stopped(case: PlanCase, log: TeamLog, ids: set[str], result: RunResult) -> None:
    """Check that a step that a person stopped is worked on no more, and ends without a result."""
    stopped = set[str]()
    for event in log.events:
        match event.fact:
            case RunApplied(intervention=StopStep(step=step)):
                assert step not in stopped, f"{step} was stopped twice"
                stopped.add(step)
            case AgentAsked(purpose="work"):
                assert step_of(log, event.key, ids) not in stopped, f"{event.key} is of a step that was stopped"
            case TeamStepAssigned(step=step):
                assert step not in stopped
            case TeamStepCompleted(step=step, state=state) if step in stopped:
                assert state not in ("completed", "degraded"), f"{step} was stopped, and is {state}"
            case StepSkipped(step=step, reason=reason) if step in stopped:
                assert reason == "stopped"
            case _:
                pass
    if stopped:
        assert (result.status, result.stop_reason) != WHOLE
        ended = {fact.step for fact in (*log.facts(TeamStepCompleted), *log.facts(StepSkipped))}
        is_over = result.status == "failed" or any(one.signal == "terminate" for one in log.facts(AgentReplied))
        is_over |= result.stop_reason == "budget"
        last = plans_of(case, log)[-1].by_id  # a person may have taken it out
        assert stopped & set(last) <= ended or is_over, stopped - ended
        required = {step for step in stopped & set(last) if last[step].required}
        is_left = any(one.status == "fallback" for one in log.facts(TeamPlanStatus))
        assert not required or is_left or result.status in ("failed", "timeout"), required


def check_plan_ends(log: TeamLog, result: RunResult) -> None:
    """Check that a plan that was worked through ended as its team did."""
    found = [one.status for one in log.facts(TeamPlanStatus)]
    if found:
        assert found[-1] in ("completed", "failed", "fallback"), found
        assert [one for one in found if one in ("completed", "failed")] in ([], ["completed"], ["failed"]), found
        if (result.status, result.stop_reason) == WHOLE:
            assert found[-1] == "completed"
        if result.status in ("failed", "timeout"):
            assert found[-1] != "completed"


def check_leavers(log: TeamLog, ids: set[str]) -> None:
    """Check that who left gets no step that had not begun, neither to work on nor to judge or decide."""
    left, begun = set[str](), set[str]()
    for event in log.events:
        match event.fact:
            case RunApplied(intervention=RemoveMember(member=name)):
                left.add(name)
            case TeamStepAssigned(step=step, member=member, members=members):
                assert step in begun or not left & {member, *members}, f"{step} goes to one of {left}"
                begun.add(step)
            case AgentAsked(member=member) if (step := step_of(log, event.key, ids)) is not None:
                assert step in begun or member not in left, f"{event.key} goes to {member}, who left"
                if event.fact.purpose == "work":
                    begun.add(step)
            case _:
                pass


def check_workers(case: PlanCase, log: TeamLog) -> None:
    """Check that a step is done by the agent that it names, or by one who may have its role."""
    if case.options.get("pool") == "first" or case.strategy in ("single", "lead_subagent"):  # one does all steps
        return
    steps = {step.id: step for plan in plans_of(case, log)[:1] for step in plan.steps}
    for event in log.events:
        match event.fact:
            case TeamPlanChanged(plan=data):
                steps = {step.id: step for step in Plan.model_validate(data).steps}
            case TeamStepAssigned(step=id_, member=member, members=()) if (step := steps.get(id_)) is not None:
                able = (step.agent,) if step.agent is not None else MAY_HAVE.get(step.role or "", (member,))
                assert member in able, f"{id_} is for {able}, and {member} does it"
            case _:
                pass


def check_models(stronger: Sequence[str], log: TeamLog, ids: set[str]) -> None:
    """Check that a stronger model is asked after the rung that says so, and that a step climbs to it once."""
    climbed = Counter(fact.step for fact in log.facts(TeamStepFailed) if fact.rung == "upgrade_model")
    assert max(climbed.values(), default=1) == 1, climbed
    for key in stronger:
        step = step_of(log, key, ids)
        assert step is None or step in climbed, f"a stronger model works at {key}, and no rung says so"


def check_reached(case: PlanCase, log: TeamLog, ids: set[str], result: RunResult) -> None:
    """Check that a run which says that it is complete reached each step of its plan, or a condition left it out."""
    if (result.status, result.stop_reason) != WHOLE:
        return
    plans = plans_of(case, log)
    reached = {fact.step for fact in log.facts(TeamStepCompleted) if fact.state == "completed"}
    reached |= {fact.step for fact in log.facts(StepSkipped) if fact.reason in ("condition", "needs")}
    if not log.facts(TeamStepAssigned):
        replied = (step_of(log, one.key, ids) for one in log.events if isinstance(one.fact, AgentReplied))
        reached |= {step for step in replied if step is not None}
    missed = {step.id for step in plans[-1].steps} - reached if plans else set[str]()
    assert not missed, f"the run is completed without {missed}"
    left_out = {fact.step for fact in log.facts(StepSkipped)}
    required = {step.id for step in plans[-1].steps if step.required} if plans else set[str]()
    assert not required & left_out, f"the run is completed without {required & left_out}, which are required"


def check_answer(log: TeamLog, ids: set[str]) -> None:
    """Check that the answer of the lead is given by no one else."""
    by = {fact.member for fact in log.facts(TeamStepAssigned) if fact.step == ANSWER}
    assert len(by) < 2, f"{by} gave the answer"


def check_decision(case: PlanCase, log: TeamLog, result: RunResult) -> None:
    """Check that a debate ends with a decision of one who made none of the proposals."""
    if case.options.get("answer") != "decision":
        return
    if (result.status, result.stop_reason) == WHOLE:
        data: Any = result.data
        assert data["chosen"] in data["options"]
        assert data["reasons"]
    ends = [fact for fact in log.facts(TeamStepCompleted) if fact.state == "completed"]
    for answer in (fact for fact in ends if fact.step == ANSWER):
        shared = {fact.step for fact in log.facts(TeamStepAssigned) if fact.members}
        own = [one.step for one in ends if one.step not in (ANSWER, *shared) and one.member == answer.member]
        assert not own, f"{answer.member} decides on its own proposals {own}"


def check_limits(case: PlanCase, log: TeamLog, ids: set[str]) -> None:
    """Check that the work on a step makes no more calls than its own limits allow, in each of its attempts."""
    fixed = case.options.get("steps", ())
    limits = {step["id"]: step["limits"]["calls"] for step in fixed if "limits" in step}
    for plan in plans_of(case, log):  # a person may lift them
        limits = {id_: most for id_, most in limits.items() if id_ not in plan.by_id or plan.by_id[id_].limits}
    works = {event.key for event in log.events if isinstance(event.fact, AgentAsked) and event.fact.purpose == "work"}
    calls = Counter[tuple[str, str]]()
    for event in log.events if limits else ():
        step = step_of(log, event.key, ids)
        is_work = isinstance(event.fact, AgentCalled) and event.key.rpartition("/")[0] in works
        if is_work and step is not None and step in limits:
            calls[step, event.key.partition(f"/{step}/")[0]] += 1
    assert all(count <= limits[step] for (step, _), count in calls.items()), calls


def check_talk(case: PlanCase, said: Sequence[Said], log: TeamLog, ids: set[str]) -> None:
    """Check that what members said to each other is recorded once: all that was heard, and nothing twice."""
    heard = Counter(fact.text for fact in log.facts(TeamMessage) if fact.type in ("chat", "assist_request"))
    heard += Counter(fact.reason for fact in log.facts(TeamHandoff))
    states = {fact.step: fact.state for fact in log.facts(TeamStepCompleted)}
    replied = {event.key for event in log.events if isinstance(event.fact, AgentReplied)}
    asked = {event.key: event.fact.member for event in log.events if isinstance(event.fact, AgentAsked)}
    for one in said:
        assert heard[one.text] <= 1, f"{one} was delivered twice"
        if one.key not in replied or states.get(step_of(log, one.key, ids) or "") in (None, "cancelled", "timeout"):
            continue
        assert heard[one.text] or not is_heard(case, one, asked[one.key]), f"{one} was lost"


def is_heard(case: PlanCase, said: Said, by: str) -> bool:
    """Return whether others hear a request for sure: a message, or the first question to one who can be reached."""
    if said.how == "message":
        return True
    is_open = case.options.get("talk") == "all" and not any(isinstance(one, RemoveMember) for _, one in case.sent)
    return said.how == "ask" and said.is_first and is_open and said.to in case.members and said.to != by
