"""The wording of what teams do beside asking: plans, verdicts, messages between members, interventions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import assert_never

from teamwright.values import people
from teamwright.values.events import team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunAborted, RunApplied, RunIntervened, RunRefused
from teamwright.values.text.control_characters import visible
from teamwright.values.text.display import count_text, cut
from teamwright.values.turns.turn import EvaluationVerdict, JudgeRecord

FIRST = 1


def plan_note(event: Event) -> str | None:
    """Return the line for a change of a plan, of its status or of a competition; none for other events."""
    match event.fact:
        case team.TeamPlanChanged(plan_version=version, difference=lines, by=by, reason=repaired):
            if version == FIRST:
                steps = sum(line.startswith("+ ") for line in lines)
                said = f"the plan{f' of {by}' if by else ''} has {count_text(steps, 'step')}"
                return f"{said}; {repaired}" if repaired else said
            return f"{by or 'a person'} changes the plan (version {version}): {'; '.join(lines)}"
        case team.TeamPlanStatus(status="failed" | "fallback" as status, reason=reason):
            said = "the plan has failed" if status == "failed" else "the plan is left, and one agent finishes the task"
            return f"{said}{f': {reason}' if reason else ''}"
        case team.TeamPlanProposed(by=by, to=to, approved=approved, reason=reason):
            decided = f"{to or 'a person'} {'approves' if approved else 'refuses'}"
            return f"{by} proposes to change the plan; {decided}{f': {reason}' if reason else ''}"
        case _:
            return _step_note(event)


def is_plan_progress(event: Event) -> bool:
    """Whether a plan goes on as planned: nothing failed, was refused, or has to be tried again."""
    match event.fact:
        case team.TeamPlanChanged(plan_version=version):
            return version == FIRST
        case team.TeamStepAssigned(attempt=attempt):
            return attempt == FIRST
        case team.TeamStepCompleted(state=state):
            return state == "completed"
        case team.TeamMerged():
            return True
        case _:
            return False


def _step_note(event: Event) -> str | None:
    """Return the line for a step that starts or ends; how it failed is said where that is recorded."""
    match event.fact:
        case team.TeamStepAssigned(step=step, member=member, members=members, attempt=attempt):
            again = f", attempt {attempt}" if attempt > FIRST else ""
            who = "" if not members and member == step else f": {', '.join(members or (member,))}"
            return f"step {step} starts{again}{who}"
        case team.TeamStepCompleted(step=step, state="completed", nothing_found=nothing_found):
            return f"step {step} is completed{': there is nothing to find' if nothing_found else ''}"
        case team.TeamStepCompleted(step=step, state="degraded" | "timeout" | "cancelled" as state):
            return f"step {step} ended {'with a warning' if state == 'degraded' else 'by ' + state}"
        case team.TeamMerged(step=step, winner=winner, by=by, tied=tied, votes=votes, entries=entries):
            if not winner:
                return f"step {step}: {by} merged the answers"
            given = sum(one == winner for one in votes.values())
            how = f" by {count_text(given, 'vote')}" if votes else f", {by} decided" if by else ""
            tie = f", a tie that {by} broke" if tied else ""
            return f"step {step}: {winner} of {entries.get(winner, '')} wins{how}{tie}"
        case _:
            return None


LONGEST_MESSAGE = 120
"""Characters of a message that a note shows."""


def live_note(event: Event) -> str | None:
    """Return the line for a message between members, or a change of the team; none for other events."""
    match event.fact:
        case team.TeamMessage(type=kind, by=by, to=to, text=text):
            words = {"chat": "tells", "assist_request": "asks", "assist": "answers", "decision": "decides for"}
            return f"{by} {words[kind]} {', '.join(to)}: {cut(visible(text), LONGEST_MESSAGE)}"
        case team.TeamLife(reason=reason, members=members, left=left) if reason:
            gone = f"; left: {', '.join(left)}" if left else ""
            return f"{reason}: {', '.join(members)}{gone}"
        case team.TeamLife(state="dissolved"):
            return "the team is dissolved; its outputs stay"
        case _:
            return None


LONGEST = 80
"""Characters of a message that a note shows."""


def intervention_text(fact: RunIntervened | RunApplied | RunRefused | RunAborted) -> str:
    """Say what a person did, and whether it was accepted, refused or took effect."""
    match fact:
        case RunAborted(member=member):
            return f"aborted by a person after {member} failed"
        case RunIntervened(intervention=intervention):
            by = "" if isinstance(intervention, people.Answered | people.ActionClaim) else intervention.by
            return f"{visible(by) if by else 'a person'} sent: {_text(intervention)}"
        case RunApplied(intervention=intervention):
            return f"in effect: {_text(intervention)}"
        case RunRefused(intervention=intervention, reason=reason):
            return f"refused: {_text(intervention)}: {visible(reason)}"
        case _:
            assert_never(fact)


def _text(intervention: people.Intervention) -> str:
    match intervention:
        case people.Tell(text=text, to=to):
            return f"{f'to {to}: ' if to else ''}{cut(visible(text), LONGEST)!r}"
        case people.PauseMember() | people.ResumeMember() | people.AddMember() | people.RemoveMember():
            return f"{intervention.kind.removesuffix('_member')} {intervention.member}"
        case people.RaiseBudget() as raise_:
            return f"raise the budget to {_amounts(raise_)}"
        case people.EditPlan():
            return "another plan"
        case people.StopStep(step=step, reason=reason):
            return f"stop the step {visible(step)}{f': {cut(visible(reason), LONGEST)!r}' if reason else ''}"
        case people.RestorePlan(plan_version=version):
            return f"version {version} of the plan again"
        case (
            people.Answered() | people.Cancel() | people.Pause() | people.Mark() | people.Undo() | people.ActionClaim()
        ):
            return intervention.kind
        case _:
            assert_never(intervention)


def _amounts(limits: people.RaiseBudget) -> str:
    """Say limits in words: `$2.5 and 40 calls`."""
    money = f"${limits.usd:g}" if limits.usd is not None else ""
    others = {"tokens": limits.tokens, "calls": limits.calls, "seconds": limits.seconds}
    return " and ".join(filter(None, (money, *(f"{value:g} {name}" for name, value in others.items() if value))))


LONGEST_REASON = 160
MOST_NAMED = 8


def evaluation_text(result: team.TeamEvaluationResult) -> str:
    """The verdict on the work of a member, as one line."""
    verdict = result.verdict
    again = f" (attempt {result.attempt})" if result.attempt > 1 else ""
    if verdict.outcome in ("not_reviewed", "auto_pass_with_warning"):
        why = ", and counts at low risk" if verdict.outcome == "auto_pass_with_warning" else ""
        head = f"the work of {result.member} is not reviewed{again}{why}"
    elif verdict.outcome == "accepted":
        return f"the work of {result.member} is accepted by a person{again}, although it did not pass"
    else:
        score = "" if verdict.score is None else f", score {verdict.score:.2f}"
        head = f"the work of {result.member} is evaluated{again}: {verdict.outcome}{score}"
    return "; ".join((head, *_parts(verdict)))


def is_plain_pass(verdict: EvaluationVerdict) -> bool:
    """Whether work passed, or was not to be reviewed, and there is nothing more to say about it."""
    return verdict.outcome in ("pass", "not_reviewed") and not (verdict.missing or verdict.unknown or verdict.warnings)


def _parts(verdict: EvaluationVerdict) -> Iterator[str]:
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for one in verdict.criteria:
        if not one.passed:
            reasons[cut(one.reason, LONGEST_REASON) or "not passed"].append(one.id)
    yield from (f"{_names(ids)}: {reason}" for reason, ids in list(reasons.items())[:MOST_NAMED])
    if len(reasons) > MOST_NAMED:
        yield f"and {len(reasons) - MOST_NAMED} more"
    if verdict.missing:
        yield f"{len(verdict.missing)} of {len(verdict.criteria)} criteria left out: {_names(verdict.missing)}"
    if verdict.unknown:
        yield f"invented, and not counted: {_names(verdict.unknown)}"
    if verdict.outcome in ("review_exceeded", "auto_pass_with_warning") and verdict.feedback:
        yield cut(verdict.feedback, LONGEST_REASON)
    for judge in verdict.judges:
        yield from _judge_parts(judge)
    yield from (f"warning: {text}" for text in verdict.warnings)


def _judge_parts(judge: JudgeRecord) -> Iterator[str]:
    if len(judge.scores) > 1:
        scores = ", ".join(f"{score:.2f}" for score in judge.scores)
        yield f"{judge.member} gave {scores}: a spread of {judge.spread:.2f}"
    if judge.unusable and judge.scores:
        answers = len(judge.scores) + len(judge.unusable)
        yield f"{len(judge.unusable)} of {answers} answers of {judge.member} can't be used: {judge.unusable[0]}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
