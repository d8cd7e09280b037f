"""Facts about teams, their plans and the steps of these as page events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from pydantic import JsonValue

from teamwright.server.page.builder import PageDraft, page_criteria, page_judges
from teamwright.server.page.page_events import (
    PageExpertJoined,
    PageExpertLeft,
    PageFailure,
    PageMessage,
    PagePart,
    PagePhase,
    PagePlanStep,
    PagePlanUpdate,
    PageTeamFormed,
    PageTeamLife,
    PageVerdict,
    PageVote,
    StepState,
)
from teamwright.server.page.state import TeamAtWork, fields_of
from teamwright.values.events.body import Body
from teamwright.values.events.event import Fact
from teamwright.values.events.live import TeamLife, TeamMessage
from teamwright.values.events.plan import TeamMerged, TeamPhase, TeamPlanChanged, TeamPlanStatus
from teamwright.values.events.step import StepSkipped
from teamwright.values.events.team import (
    TeamEvaluationResult,
    TeamEvaluationStarted,
    TeamHandoff,
    TeamMessageSent,
    TeamStarted,
    TeamStepAssigned,
    TeamStepCompleted,
    TeamStepFailed,
)
from teamwright.values.key import join_key
from teamwright.values.people.questions import Answer
from teamwright.values.secrets.patterns import mask_text, mask_value

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
"""The states of a page's steps by the status of a phase."""
SKIPPED = {
    "condition": "its condition does not hold",
    "needs": "there is no output from {}",
    "failure": "it depends on {}, where a step failed",
}
OPEN_PLAN = frozenset(("draft", "confirmed", "executing"))
ExpertId = Callable[[str], str]
"""Returns the id of the expert with a name."""


def project_team(draft: PageDraft, fact: Fact) -> bool:
    """Add what a fact about a team shows; returns whether nothing else needs to be said about it."""
    match fact:
        case TeamStarted():
            _formed(draft, fact)
        case TeamLife():
            _life(draft, fact)
        case TeamMessage(type=type, by=by, to=to, text=text):
            to = draft.stage.ids(draft.team, to)
            more = {"phase": fact.phase, "original": fact.original}
            draft.add(PageMessage(**draft.head(by), type=type, text=mask_text(text), to=to, round=fact.round, **more))
        case TeamHandoff(source=source, to=to, reason=reason):
            ids = draft.stage.ids(draft.team, (to,) if to else ())
            draft.add(PageMessage(**draft.head(source), type="handoff", text=mask_text(reason), to=ids))
        case TeamMessageSent(by=by, to=to, round=round):
            ids = draft.stage.ids(draft.team, to)
            draft.add(PageMessage(**draft.head(by), type="handoff", text="", to=ids, round=round))
        case TeamEvaluationStarted():
            pass  # the judge's own ask is shown
        case TeamEvaluationResult():
            _verdict(draft, fact)
        case TeamMerged():
            _vote(draft, fact)
        case _:
            return _project_plan(draft, fact)
    return True


def _project_plan(draft: PageDraft, fact: Fact) -> bool:
    match fact:
        case TeamPlanChanged():
            _plan_changed(draft, fact)
        case TeamPlanStatus(status=status, plan_version=version, reason=reason):
            _plan(draft, version, status, reason=reason)
        case TeamPhase():
            _phase(draft, fact)
        case TeamStepAssigned(step=step, member=member, attempt=attempt):
            draft.team.records_steps = True
            draft.team.states.pop(step, None)
            draft.set_step(step, "running", attempt=attempt, members=(member,))
        case TeamStepFailed(step=step, member=member, attempt=attempt, error=error, rung=rung):
            state = "running" if rung in ("retry", "downgrade_model") else "failed"
            draft.set_step(step, state, attempt=attempt, members=(member,), reason=error)
            return False  # the note says what happens now
        case TeamStepCompleted() as done:
            draft.team.states.pop(done.step, None)
            draft.set_step(
                done.step,
                done.state,
                attempt=done.attempts,
                members=(done.member,),
                verdict=done.verdict or "",
                score=done.score,
            )
        case StepSkipped(step=step, reason=reason, because=because):
            draft.set_step(step, "skipped", reason=SKIPPED[reason].format(", ".join(because)))
        case _:
            return False
    return True


def _formed(draft: PageDraft, fact: TeamStarted) -> None:
    team, stage = draft.team, draft.stage
    stage.form(team, fact)
    members = tuple(stage.expert(team, name) for name in fact.members)
    stage.announced.update(one.id for one in members)
    described = _declared_text(team, "description")
    draft.add(
        PageTeamFormed(
            **draft.head(key=team.scope),
            team=team.name,
            strategy=fact.strategy,
            members=members,
            lead=team.prefix + team.lead if team.lead else "",
            share=fact.share,
            description=mask_text(described),
        )
    )
    _plan(draft, 0, "executing")


def _declared_text(team: TeamAtWork, name: str) -> str:
    value = team.declared.get(name) if isinstance(team.declared, dict) else None
    return value if isinstance(value, str) else ""


def _life(draft: PageDraft, fact: TeamLife) -> None:
    team, stage = draft.team, draft.stage
    before = set(team.members)
    for name in fact.members:
        if name not in before and team.members:
            expert = stage.expert(team, name)
            stage.announced.add(expert.id)
            described = mask_text(stage.looks.description_of(name))
            role = "lead" if name == fact.lead else "member"
            draft.add(PageExpertJoined(**draft.head(expert), role=role, description=described, reason=fact.reason))
    for name in fact.left:
        if name not in team.left:
            draft.add(PageExpertLeft(**draft.head(name), reason=mask_text(fact.reason)))
    team.members, team.left, team.lead = fact.members, fact.left, fact.lead
    lead = team.prefix + fact.lead if fact.lead else ""
    draft.add(PageTeamLife(**draft.head(), state=fact.state, lead=lead, reason=mask_text(fact.reason)))


def _verdict(draft: PageDraft, fact: TeamEvaluationResult) -> None:
    verdict, scope = fact.verdict, draft.event.scope
    judge = verdict.judges[0].member if verdict.judges else ""
    step = draft.team.step_of(draft.key)
    draft.add(
        PageVerdict(
            **draft.head(fact.member),
            work=join_key(scope, fact.work),
            attempt=fact.attempt,
            outcome=verdict.outcome,
            score=verdict.score,
            criteria=page_criteria(verdict.criteria),
            judge=judge,
            judges=page_judges(verdict.judges),
            feedback=mask_text(verdict.feedback),
            suggestions=tuple(map(mask_text, verdict.suggestions)),
            step=step,
            revises=join_key(scope, fact.revises) if fact.revises else "",
            warnings=tuple(map(mask_text, verdict.warnings)),
        )
    )
    if step and not draft.team.records_steps:
        state = "completed" if verdict.passes else "running" if verdict.outcome == "revise" else "failed"
        draft.set_step(step, state, attempt=fact.attempt, verdict=verdict.outcome, score=verdict.score)
    if verdict.passes and step in draft.team.milestones:
        title = draft.team.names.get(step, step)
        draft.add(PageMessage(**draft.head(fact.member), type="milestone", text=mask_text(title), phase=step))


def _vote(draft: PageDraft, fact: TeamMerged) -> None:
    prefix = draft.team.prefix
    draft.add(
        PageVote(
            **draft.head(fact.by),
            phase=fact.phase,
            merge=fact.merge,
            entries={answer: prefix + member for answer, member in fact.entries.items()},
            votes={prefix + member: answer for member, answer in fact.votes.items()},
            winner=fact.winner,
            by=prefix + fact.by if fact.by else "",
            tied=fact.tied,
            reason=mask_text(fact.reason),
        )
    )


def _plan_changed(draft: PageDraft, fact: TeamPlanChanged) -> None:
    team = draft.team
    team.plan, team.lead = fact.plan, fact.lead or team.lead
    status = fact.plan.get("status") if isinstance(fact.plan, dict) else None
    _plan(draft, fact.plan_version, str(status or "draft"), fact, reason=fact.reason)
    if fact.to and fact.difference:
        text, to = mask_text("\n".join(fact.difference)), draft.stage.ids(team, fact.to)
        draft.add(PageMessage(**draft.head(fact.by), type="plan_update", text=text, to=to))


def _plan(draft: PageDraft, version: int, status: str, change: TeamPlanChanged | None = None, reason: str = "") -> None:
    """Add the plan of the team as it is now; a team without a plan has none."""
    team, prefix = draft.team, draft.team.prefix
    steps = tuple(plan_steps(team.plan, team.states, lambda name: prefix + name))
    if not steps:
        return
    team.plan_version, team.plan_status = version, status
    team.states = {step.id: step.state for step in steps}
    team.names = {step.id: step.name for step in steps}
    team.milestones = {step.id for step in steps if step.milestone}
    by = "" if change is None else change.by
    draft.add(
        PagePlanUpdate(
            **draft.head(by),
            version=version,
            status=status,
            steps=steps,
            difference=() if change is None else tuple(map(mask_text, change.difference)),
            by=prefix + by if by else "",
            lead=prefix + team.lead if team.lead else "",
            reason=mask_text(reason),
            to=() if change is None else draft.stage.ids(team, change.to),
        )
    )


def propose_plan(draft: PageDraft, proposed: Body) -> None:
    """Show the plan that a person is asked to confirm, where the strategy has recorded none."""
    team, ask = draft.team, draft.stage.ask_around(draft.key)
    plan = _plan_in(draft.source.value(proposed))
    if team.plan_version == 0 and ask is not None and ask.is_team and fields_of(plan).get("steps"):
        team.plan, team.proposal = plan, draft.key
        _plan(draft, 0, "draft")


def decide_plan(draft: PageDraft, answer: Answer) -> None:
    """Show the proposed plan as a person has confirmed or edited it; a team with a rejected plan fails."""
    team = draft.team
    if team.proposal != draft.key or answer.text == "reject":
        return
    if answer.text == "edit":
        team.plan = _plan_in(mask_value(answer.data))
    _plan(draft, 0, "executing")


def close_plan(draft: PageDraft, failure: PageFailure | None) -> None:
    """End the plan of a team whose strategy does not record that."""
    team = draft.team
    if team.plan_status not in OPEN_PLAN:
        return
    if failure is not None and failure.error == "cancelled":
        status = "cancelled"
    else:
        failed = failure is not None or (team.ended is not None and team.ended.status in ("failed", "timeout"))
        status = "failed" if failed else "completed"
    _plan(draft, team.plan_version, status)


def reopen_plan(draft: PageDraft) -> None:
    """Continue the plan of a team that had ended in the source of a fork."""
    draft.team = team = draft.stage.team_around(draft.event.scope)
    if team.plan_status:
        _plan(draft, team.plan_version, "executing")


def _plan_in(value: JsonValue) -> JsonValue:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _phase(draft: PageDraft, fact: TeamPhase) -> None:
    team = draft.team
    team.records_steps = True
    experts = draft.stage.ids(team, fact.members)
    draft.add(
        PagePhase(
            **draft.head(key=join_key(team.scope, fact.phase)),
            phase=fact.phase,
            name=mask_text(team.names.get(fact.phase, fact.phase)),
            status=fact.status,
            attempt=fact.attempt,
            experts=experts,
        )
    )
    draft.set_step(fact.phase, STATES[fact.status], attempt=fact.attempt, members=fact.members)


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
