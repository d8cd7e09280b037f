"""Facts about teams, their plans and the steps of these as page events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from pydantic import JsonValue

from teamwright.server.page.page_events import (
    PageCriterion,
    PageExpertJoined,
    PageExpertLeft,
    PageFailure,
    PageJudge,
    PageMessage,
    PagePart,
    PagePlanStep,
    PagePlanUpdate,
    PageTeamFormed,
    PageTeamLife,
    PageVerdict,
    PageVote,
    StepState,
)
from teamwright.server.page.page_state import EventBuilder, TeamAtWork, fields_of, page_value
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Fact
from teamwright.values.events.team import (
    StepSkipped,
    TeamEvaluationResult,
    TeamEvaluationStarted,
    TeamHandoff,
    TeamLife,
    TeamMerged,
    TeamMessage,
    TeamMessageSent,
    TeamPlanChanged,
    TeamPlanStatus,
    TeamStarted,
    TeamStepAssigned,
    TeamStepCompleted,
    TeamStepFailed,
)
from teamwright.values.run_keys import join_key
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.turn import JudgeRecord

MODES: Mapping[str, Literal["subtasks", "compete"]] = {
    "subtask_parallel": "subtasks",
    "competitive_parallel": "compete",
}
STATES: Mapping[str, StepState] = {
    "pending": "pending",
    "in_progress": "running",
    "completed": "completed",
    "skipped": "skipped",
    "failed": "failed",
}
"""The states of a page's steps by the status of a step in a recorded plan."""
SKIPPED = {
    "condition": "its condition does not hold",
    "needs": "there is no output from {}",
    "stopped": "a person stopped it",
    "failure": "it depends on {}, where a step failed",
}
OPEN_PLAN = frozenset(("draft", "confirmed", "executing"))
ExpertId = Callable[[str], str]
"""Returns the id of the expert with a name."""


def project_team(builder: EventBuilder, fact: Fact) -> bool:
    """Add what a fact about a team shows; returns whether nothing else needs to be said about it."""
    match fact:
        case TeamStarted():
            _formed(builder, fact)
        case TeamLife():
            _life(builder, fact)
        case TeamMessage(type=type, by=by, to=to, text=text):
            to = builder.state.ids(builder.team, to)
            more = {"step": fact.step, "original": fact.original}
            builder.add(
                PageMessage(**builder.head(by), type=type, text=mask_text(text), to=to, round=fact.round, **more)
            )
        case TeamHandoff(source=source, to=to, reason=reason):
            ids = builder.state.ids(builder.team, (to,) if to else ())
            builder.add(PageMessage(**builder.head(source), type="handoff", text=mask_text(reason), to=ids))
        case TeamMessageSent(by=by, to=to, round=round):
            ids = builder.state.ids(builder.team, to)
            builder.add(PageMessage(**builder.head(by), type="handoff", text="", to=ids, round=round))
        case TeamEvaluationStarted():
            pass  # the judge's own ask is shown
        case TeamEvaluationResult():
            _verdict(builder, fact)
        case TeamMerged():
            _vote(builder, fact)
        case _:
            return _project_plan(builder, fact)
    return True


def _project_plan(builder: EventBuilder, fact: Fact) -> bool:
    match fact:
        case TeamPlanChanged():
            _plan_changed(builder, fact)
        case TeamPlanStatus(status=status, plan_version=version, reason=reason):
            _plan(builder, version, status, reason=reason)
        case TeamStepAssigned(step=step, member=member, attempt=attempt, members=members):
            builder.team.records_steps = True
            builder.team.states.pop(step, None)
            (builder.team.shared.add if members else builder.team.shared.discard)(step)
            builder.set_step(step, "running", attempt=attempt, members=members or (member,))
        case TeamStepFailed(step=step, member=member, attempt=attempt, error=error, rung=rung):
            state = "running" if rung in ("retry", "upgrade_model", "downgrade_model") else "failed"
            builder.set_step(step, state, attempt=attempt, members=_workers(builder.team, step, member), reason=error)
            return False  # the note says what happens now
        case TeamStepCompleted() as done:
            builder.team.states.pop(done.step, None)
            builder.set_step(
                done.step,
                done.state,
                attempt=done.attempts,
                members=_workers(builder.team, done.step, done.member),
                verdict=done.verdict or "",
                score=done.score,
            )
        case StepSkipped(step=step, reason=reason, because=because):
            builder.set_step(step, "skipped", reason=SKIPPED[reason].format(", ".join(because)))
        case _:
            return False
    return True


def _workers(team: TeamAtWork, step: str, member: str) -> tuple[str, ...]:
    """Return who a step ended with; a step of several keeps those who worked on it."""
    return () if step in team.shared else (member,)


def _formed(builder: EventBuilder, fact: TeamStarted) -> None:
    team, state = builder.team, builder.state
    state.form(team, fact)
    members = tuple(state.expert(team, name) for name in fact.members)
    state.announced.update(one.id for one in members)
    described = _declared_text(team, "description")
    builder.add(
        PageTeamFormed(
            **builder.head(key=team.scope),
            team=team.name,
            strategy=fact.strategy,
            members=members,
            lead=team.prefix + team.lead if team.lead else "",
            share=fact.share,
            description=mask_text(described),
        )
    )
    _plan(builder, 0, "executing")


def _declared_text(team: TeamAtWork, name: str) -> str:
    value = team.declared.get(name) if isinstance(team.declared, dict) else None
    return value if isinstance(value, str) else ""


def _life(builder: EventBuilder, fact: TeamLife) -> None:
    team, state = builder.team, builder.state
    before = set(team.members)
    for name in fact.members:
        if name not in before and team.members:
            expert = state.expert(team, name)
            state.announced.add(expert.id)
            described = mask_text(state.appearance.description_of(name))
            role = "lead" if name == fact.lead else "member"
            builder.add(PageExpertJoined(**builder.head(expert), role=role, description=described, reason=fact.reason))
    for name in fact.left:
        if name not in team.left:
            builder.add(PageExpertLeft(**builder.head(name), reason=mask_text(fact.reason)))
    team.members, team.left, team.lead = fact.members, fact.left, fact.lead
    lead = team.prefix + fact.lead if fact.lead else ""
    builder.add(PageTeamLife(**builder.head(), state=fact.state, lead=lead, reason=mask_text(fact.reason)))


def _verdict(builder: EventBuilder, fact: TeamEvaluationResult) -> None:
    verdict, scope = fact.verdict, builder.event.scope
    judge = verdict.judges[0].member if verdict.judges else ""
    step = builder.team.step_of(builder.key)
    builder.add(
        PageVerdict(
            **builder.head(fact.member),
            work=join_key(scope, fact.work),
            attempt=fact.attempt,
            outcome=verdict.outcome,
            score=verdict.score,
            criteria=tuple(
                page_value(PageCriterion, one.changed(reason=mask_text(one.reason))) for one in verdict.criteria
            ),
            judge=judge,
            judges=tuple(map(_judge, verdict.judges)),
            feedback=mask_text(verdict.feedback),
            suggestions=tuple(map(mask_text, verdict.suggestions)),
            step=step,
            revises=join_key(scope, fact.revises) if fact.revises else "",
            warnings=tuple(map(mask_text, verdict.warnings)),
        )
    )
    if step and not builder.team.records_steps:
        state = "completed" if verdict.passes else "running" if verdict.outcome == "revise" else "failed"
        builder.set_step(step, state, attempt=fact.attempt, verdict=verdict.outcome, score=verdict.score)
    if verdict.passes and step in builder.team.milestones:
        title = builder.team.names.get(step, step)
        builder.add(PageMessage(**builder.head(fact.member), type="milestone", text=mask_text(title), step=step))


def _judge(one: JudgeRecord) -> PageJudge:
    return PageJudge(name=one.member, model=one.model, scores=one.scores, spread=one.spread)


def _vote(builder: EventBuilder, fact: TeamMerged) -> None:
    prefix = builder.team.prefix
    builder.add(
        PageVote(
            **builder.head(fact.by),
            step=fact.step,
            merge=fact.merge,
            entries={answer: prefix + member for answer, member in fact.entries.items()},
            votes={prefix + member: answer for member, answer in fact.votes.items()},
            winner=fact.winner,
            by=prefix + fact.by if fact.by else "",
            tied=fact.tied,
            reason=mask_text(fact.reason),
        )
    )


def _plan_changed(builder: EventBuilder, fact: TeamPlanChanged) -> None:
    team = builder.team
    team.plan, team.lead = fact.plan, fact.lead or team.lead
    status = fact.plan.get("status") if isinstance(fact.plan, dict) else None
    _plan(builder, fact.plan_version, str(status or "draft"), fact, reason=fact.reason)
    if fact.to and fact.difference:
        text, to = mask_text("\n".join(fact.difference)), builder.state.ids(team, fact.to)
        builder.add(PageMessage(**builder.head(fact.by), type="plan_update", text=text, to=to))


def _plan(
    builder: EventBuilder, version: int, status: str, change: TeamPlanChanged | None = None, reason: str = ""
) -> None:
    """Add the plan of the team as it is now; a team without a plan has none."""
    team, prefix = builder.team, builder.team.prefix
    steps = tuple(plan_steps(team.plan, team.states, lambda name: prefix + name))
    if not steps:
        return
    team.plan_version, team.plan_status = version, status
    team.states = {step.id: step.state for step in steps}
    team.names = {step.id: step.name for step in steps}
    team.milestones = {step.id for step in steps if step.milestone}
    by = "" if change is None else change.by
    builder.add(
        PagePlanUpdate(
            **builder.head(by),
            version=version,
            status=status,
            steps=steps,
            difference=() if change is None else tuple(map(mask_text, change.difference)),
            by=prefix + by if by else "",
            lead=prefix + team.lead if team.lead else "",
            reason=mask_text(reason),
            to=() if change is None else builder.state.ids(team, change.to),
        )
    )


def propose_plan(builder: EventBuilder, proposed: Body) -> None:
    """Show the plan that a person is asked to confirm, where the strategy has recorded none."""
    team, ask = builder.team, builder.state.ask_around(builder.key)
    plan = _plan_in(builder.source.value(proposed))
    if team.plan_version == 0 and ask is not None and ask.is_team and fields_of(plan).get("steps"):
        team.plan = plan
        _plan(builder, 0, "draft")


def close_plan(builder: EventBuilder, failure: PageFailure | None) -> None:
    """End the plan of a team whose strategy does not record that."""
    team = builder.team
    if team.plan_status not in OPEN_PLAN:
        return
    if failure is not None and failure.error == "cancelled":
        status = "cancelled"
    else:
        failed = failure is not None or (team.ended is not None and team.ended.status in ("failed", "timeout"))
        status = "failed" if failed else "completed"
    _plan(builder, team.plan_version, status)


def reopen_plan(builder: EventBuilder) -> None:
    """Continue the plan of a team that had ended in the source of a fork."""
    builder.team = team = builder.state.team_around(builder.event.scope)
    if team.plan_status:
        _plan(builder, team.plan_version, "executing")


def _plan_in(value: JsonValue) -> JsonValue:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def plan_steps(plan: JsonValue, states: Mapping[str, StepState], expert_id: ExpertId) -> Iterator[PagePlanStep]:
    """Yield the steps of a plan; a step that has no status of its own has its state in `states`."""
    steps = fields_of(plan).get("steps")
    for step in map(fields_of, steps if isinstance(steps, list) else ()):
        if id := _text(step, "id"):
            yield _step(id, step, states, expert_id)


def _step(id: str, step: Mapping[str, JsonValue], states: Mapping[str, StepState], expert_id: ExpertId) -> PagePlanStep:
    parts = tuple(_parts(step, expert_id))
    named = (*_texts(step, "agents"), *filter(None, (_text(step, "agent"), _text(step, "role"))))
    priority = step.get("priority")
    return PagePlanStep(
        id=id,
        name=mask_text(_text(step, "name")) or id,
        task=mask_text(_text(step, "task")),
        assignees=tuple(dict.fromkeys(part.assignee for part in parts)) or tuple(map(expert_id, named)),
        needs=_texts(step, "needs"),
        state=states.get(id) or STATES.get(_text(step, "status"), "pending"),
        mode=MODES.get(_text(step, "parallel"), "single"),
        merge=_text(step, "merge"),
        milestone=bool(step.get("evaluate")),
        parts=parts,
        owns=tuple(map(mask_text, _texts(step, "owns"))),
        when=mask_text(_text(step, "when")),
        priority=priority if isinstance(priority, int) else 0,
    )


def _parts(step: Mapping[str, JsonValue], expert_id: ExpertId) -> Iterator[PagePart]:
    parts = step.get("parts")
    for part in map(fields_of, parts if isinstance(parts, list) else ()):
        yield PagePart(
            id=_text(part, "id"), assignee=expert_id(_text(part, "agent")), task=mask_text(_text(part, "task"))
        )


def _text(fields: Mapping[str, JsonValue], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _texts(fields: Mapping[str, JsonValue], name: str) -> tuple[str, ...]:
    value = fields.get(name)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
