"""The wording of events: the note that people read about each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, assert_never

from teamwright.values import people
from teamwright.values.call_limits import is_reply_cut_warning
from teamwright.values.events import agent, budget, run, team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunAborted, RunApplied, RunIntervened, RunRefused
from teamwright.values.limits import refusal_text
from teamwright.values.people import Mark
from teamwright.values.run_keys import is_tool_call, parent_key
from teamwright.values.text.display import count_text, cut, minute_text, price_text, seconds_text, size_text, visible
from teamwright.values.turns.results import FOR_PEOPLE, iso_after
from teamwright.values.turns.turn import EvaluationVerdict, JudgeRecord

if TYPE_CHECKING:
    from teamwright.values.people import Answer, Question


ERROR_WORDS = {
    "rate_limit": "rate limited by the provider",
    "context_length": "the prompt was too long for the model",
    "timeout": "the call timed out",
    "server": "the service failed or could not be reached",
    "refused": "the model or its provider declined",
    "invalid_request": "the provider rejects the request; check the key, the model and the account",
    "invalid_output": "the reply can't be used",
    "invalid_input": "the task does not match the agent's schema",
    "budget": "the budget does not allow it",
    "deadline": "the time limit was reached",
    "tool": "a tool failed",
    "in_doubt": "a tool was lost during its call",
    "not_done": "a tool failed before it did anything",
    "conflict": "another write to the workspace came first",
    "not_found": "there is no such artifact",
    "not_owned": "it requests keys that it can't own",
    "script": "the script has no rule for it",
    "expression": "a condition or a template could not be evaluated",
    "pattern": "a regular expression took too long",
    "error": "a call raised an exception",
    "crash": "the agent's code raised an exception",
    "cancelled": "cancelled",
    "stopped": "its run on a worker was stopped",
    "rejected": "a person rejected it",
    "planning": "there is no usable plan",
    "max_turns": "the turns were used up",
    "review_exceeded": "its work did not pass its review",
}
"""Every kind of failure, as people read it; docs/reference/failures.md has the same kinds."""

READ_BY = {
    "structured": "as structured output",
    "exact": "by name",
    "case": "by name, ignoring case",
    "mention": "its answer mentions one eligible member",
}
"""How a selector's answer was parsed."""

DEGRADED = {
    "peer_talk": "budget running low: workers no longer talk with each other",
    "summaries": "budget running low: summaries are limited to {after:.0%} of their length",
    "workers": "budget running low: at most {after:g} workers at once",
    "economy": "budget running low: members of lower priority use cheaper models",
    "compaction": "budget running low: only the last {after:g} messages are sent in full",
    "answer": "budget running low: the answer is given from excerpts, by the cheaper model if others use theirs",
}

RESTORED = {
    "peer_talk": "workers may talk with each other again",
    "summaries": "summaries may be longer again",
    "workers": "more workers may run at once",
    "economy": "members use their regular models again",
    "compaction": "earlier messages are sent in full again",
    "answer": "the answer is given from whole messages again",
}
"""What each rung of the degradation ladder does when it is applied and when it is reverted."""

LONG_WAIT = 1.0
"""A call that waited at least this many seconds in its queue gets a note."""
FIRST = 1
LONGEST_MESSAGE = 120
"""Characters of a message that a note shows."""
LONGEST = 80
"""Characters of a message that a note shows."""
LONGEST_REASON = 160
MOST_NAMED = 8


def _answer_detail(answer: Answer) -> str:
    """The reason of a rejection, or the ceiling of a smaller run."""
    match answer.text, answer.data:
        case "smaller", dict(ceiling):
            return f" (at most {', '.join(f'{amount} {unit}' for unit, amount in ceiling.items())})"
        case (("reject" | "no"), data) if data:
            return f" ({data})"
        case _:
            return ""


RUNG_TEXTS: dict[team.FailureRung, str] = {
    "retry": "it is tried again",
    "upgrade_model": "it is tried with a stronger model",
    "downgrade_model": "it is tried with a cheaper model",
    "replan": "the lead plans again",
    "skip_step": "the team continues without it",
    "finish": "one agent finishes the task",
    "abort_team": "the team fails",
}

USUAL = (
    team.TeamDecided, team.TeamEmitted, team.TeamGoalReached, team.TeamHandoff, team.TeamPlanned,
    team.TeamRoleBound, team.TeamChannelOpened, team.TeamChannelClosed, team.StepSkipped, team.StepHeldUp,
    run.RunCheckpoint, run.PersonAnswered, agent.AgentModeRefused, run.RunApplied, team.TeamLife, team.TeamMessage,
    agent.WorkspacePatched,
)  # fmt: skip


def mark_of(event: Event) -> Literal["·", "!"]:
    """The mark before a note: `!` for something out of the ordinary."""
    if isinstance(event.fact, team.TeamEvaluationResult):
        return "·" if is_plain_pass(event.fact.verdict) else "!"
    if plan_note(event) is not None:
        return "·" if is_plan_progress(event) else "!"
    return "·" if isinstance(event.fact, USUAL) else "!"


def note_text(event: Event) -> str | None:
    """A note about an event that a reader should know besides the replies; none for routine events."""
    match event.fact:
        case run.RunStarted(origin=origin) if origin is not None:
            return _origin_text(origin)
        case run.RunResumed(driver=driver):
            return f"run resumed{f' by {driver}' if driver else ''}"
        case run.RunPaused(why=why) as paused:
            return f"run paused: {why}" if why else _pause_text(paused)
        case run.RunIntervened(intervention=Mark()):
            return None  # the checkpoint has an event of its own
        case run.RunIntervened() | run.RunApplied() | run.RunRefused() | run.RunAborted() as fact:
            return intervention_text(fact)
        case run.ScopeExpired(seconds=seconds):
            return f"time limit of {seconds:g} seconds reached"
        case run.RunEnded():
            return None
        case _:
            return _note_of_member(event)


def _pause_text(paused: run.RunPaused) -> str:
    reason = paused.stop_reason
    if reason == "quota":
        until = f" until {iso_after(paused.resume_at)}" if paused.resume_at is not None else ""
        return f"run paused{until}: a provider takes no calls before"
    if reason not in FOR_PEOPLE:
        return f"run paused: {reason}"
    return "run paused: waiting for a person" + ("" if reason == "person" else f" ({reason})")


def _note_of_member(event: Event) -> str | None:
    match event.fact:
        case agent.AgentCalled(in_doubt=True, name=name, effect=effect):
            again = "" if effect == "tool" else ", so it is made again"  # `once` and `check` decide about a tool
            return f"the last call to {name} is in doubt (it may or may not have arrived){again}"
        case agent.AgentCalled(waited=waited, name=name) if waited >= LONG_WAIT:
            return f"waited {seconds_text(waited)} in the queue for {name}"
        case agent.AgentCallFailed() | agent.AgentCallRejected() as fact:
            return _failed_call_text(event.place, fact)
        case agent.AgentFailed(error="budget"):
            return None  # the refused call has an event of its own
        case agent.AgentFailed(error=error, message=message):
            return "cancelled before it finished" if error == "cancelled" else f"failed: {message}"
        case agent.AgentReplied(truncated=True, warnings=warnings):
            by_size = any(map(is_reply_cut_warning, warnings))
            return f"the reply was cut at its {'size' if by_size else 'output'} cap"
        case agent.AgentAbandoned(name=name, grace=grace):
            return f"{name} did not stop within {seconds_text(grace)} and was abandoned"
        case _:
            return (
                _note_of_people(event)
                or _note_of_recovery(event)
                or _note_of_budget(event)
                or _note_of_team(event)
                or _note_of_plan(event)
                or live_note(event)
                or _note_of_step(event)
                or _note_of_record(event)
            )


def _failed_call_text(place: str, failed: agent.AgentCallFailed | agent.AgentCallRejected) -> str:
    """Why a call failed and what happens next. A member whose tool call failed sees the error and continues."""
    if isinstance(failed, agent.AgentCallRejected):
        return f"the tool {failed.name} was not called: {failed.message}"
    why = failed.message
    if failed.error != "tool":  # the message of a tool says that it failed
        why += f" ({ERROR_WORDS.get(failed.error, failed.error)})"
    if is_tool_call(place) and failed.retry_in is None:
        return f"tool call failed: {why}; the member sees the error and continues"
    ending = "gave up" if failed.retry_in is None else f"retrying in {seconds_text(failed.retry_in)}"
    return f"attempt {failed.attempt} failed: {why}; {ending}"


def _note_of_people(event: Event) -> str | None:
    match event.fact:
        case run.PersonAsked(question=question):
            return f"asks {visible(question.to or 'a person')}: {question_text(question)}"
        case run.PersonAnswered(answer=answer):
            return f"was answered{f' by {answer.by}' if answer.by else ''}: {answer.text}{_answer_detail(answer)}"
        case run.RunInterrupted():
            return "the process that drives the run was asked to stop"
        case run.RunQueued(queue=queue, waits_for=needed, starts=starts):
            with_what = f" with {visible(', '.join(needed))}" if needed else ""
            since = "" if starts is None else f", from {minute_text(starts)} on"
            return f"waits in the queue {visible(queue)!r} for a worker{with_what}{since}"
        case run.RunNotified() as fact:
            return _note_of_webhook(fact)
        case _:
            return None


def _note_of_webhook(fact: run.RunNotified) -> str:
    if fact.error is None:
        return "webhook notified that the run waits" + (f" (attempt {fact.attempt})" if fact.attempt > 1 else "")
    if fact.retry_in is None:
        return f"webhook failed, gave up: {fact.error}"
    return f"webhook failed (attempt {fact.attempt}), retrying in {seconds_text(fact.retry_in)}: {fact.error}"


def _note_of_recovery(event: Event) -> str | None:
    match event.fact:
        case agent.AgentRecovered(member=member, error=error, how="fell_back", to=to):
            fallback = "another model" if to == member else to
            return f"{member} failed ({error}); falling back to {fallback}"
        case agent.AgentRecovered(member=member, how="summarised"):
            return f"the conversation is too long for {member}; retrying with a summary"
        case agent.AgentCompacted(member=member, messages=messages):
            return f"{member} replaced {count_text(messages, 'older message')} by a summary"
        case agent.AgentRecovered(member=member, error=error):
            return f"{member} failed ({error}), and the team can't continue without it"
        case agent.AgentModeRefused(model=model, refused=refused, mode=mode):
            return f"{model} takes no answers in the mode {' or '.join(refused)}; asked in the mode {mode} instead"
        case agent.AgentChecked(check=check, verdict="mended"):
            return f"the check of the {check} replaced the text"
        case agent.AgentChecked(check=check, verdict=verdict, text=text):
            return f"the check of the {check} {verdict}: {text}"
        case _:
            return None


def _note_of_budget(event: Event) -> str | None:
    match event.fact:
        case budget.BudgetRefused(level=level, what=what, needed=needed, left=left, limit=limit, kept=kept, why=why):
            return f"a call was refused: {refusal_text(level, what, needed, left, limit, kept, why)}"
        case budget.BudgetExceeded(level=level, over=over, what=what):
            return budget.exceeded_text(level, what, over)
        case budget.BudgetUnpriced() | budget.BudgetMisreported() as fact:
            return fact.warning
        case budget.BudgetDegraded(rung=rung, after=after, reason=reason, undone=undone):
            restored = f"budget recovered: {RESTORED.get(rung, rung)}"
            return f"{restored if undone else DEGRADED.get(rung, rung).format(after=after)} ({reason})"
        case run.Custom(domain=domain, name=name):
            return f"{domain} {name}"
        case _:
            return _note_of_waits(event)


def _note_of_waits(event: Event) -> str | None:
    match event.fact:
        case budget.BudgetAwaited(member=member, level=level, what=what, needed=needed, held=held, holders=holders):
            wanted, kept = (price_text(one) if what == "usd" else f"{one} {what}" for one in (needed, held))
            whom = ", ".join(holders) or "others"
            return f"{member} waits for {wanted} of {level or 'the run'!r}: {whom} reserved {kept}"
        case budget.BudgetThrottled(model=model, before=before, after=after, seconds=seconds):
            rest = f"no calls for {seconds_text(seconds)}" if seconds else ""
            fewer = f"at most {after} at once instead of {before}" if after != before else ""
            return f"{model} is rate limited: {', then '.join(filter(None, (rest, fewer)))}"
        case budget.BudgetEased(model=model, concurrency=count):
            return f"{model} accepts {count} calls at once again"
        case _:
            return None


def _note_of_team(event: Event) -> str | None:
    match event.fact:
        case team.TeamDecided(by=by, action=action, iteration=number, to=to):
            whom = f" to {', '.join(to)}" if to else ""
            return f"decision {number} of {by}: {action}{whom}"
        case team.TeamReplyRejected(member=member, problem=problem):
            return f"{member} is asked again because its answer can't be used: {problem}"
        case team.TeamEmitted(type=kind, by=by, to=to):
            subscribers = f"to {', '.join(to)}" if to else "no subscribers"
            return f"event {kind}{f' from {by}' if by else ''}, {subscribers}"
        case team.TeamBounded(limit=limit, most=most, type=kind, by=by) as fact:
            return f"stopped by {limit} ({most}): {kind} from {by} is dropped, {fact.chain_text}"
        case team.TeamGoalReached(by=by, at_work=at_work, waiting=waiting):
            return f"{by} reached the goal; {at_work} running are cancelled, {count_text(waiting, 'reaction')} dropped"
        case team.TeamEvaluationResult() as fact:
            return evaluation_text(fact)
        case team.TeamEscalated(member=member, risk_level=risk, to=to, reason=reason):
            why = f", because {reason}" if reason else ""
            return f"{member} reports {risk} risk; its reply counts only if {to or 'a person'} approves it{why}"
        case _:
            return _note_of_next_speaker(event)


def _note_of_next_speaker(event: Event) -> str | None:
    match event.fact:
        case team.TeamHandoff(source=source, to="", reason=reason):
            return f"a person is needed for the work of {source}: {reason}"
        case team.TeamHandoff(source=source, to=to, reason=reason):
            return f"{source} hands off to {to}" + (f": {reason}" if reason else "")
        case team.TeamSelected(member=member, turn=turn, how="fallback", reason=reason):
            return f"turn {turn} goes to {member}, the first eligible member, because {reason}"
        case _:
            return None


def _note_of_plan(event: Event) -> str | None:
    match event.fact:
        case team.TeamPlanned(topology=topology, steps=steps, rounds=rounds, width=width, lead=lead):
            led = f", led by {lead}" if lead else ""
            side = f"{width} at once" if width > 1 else "one at a time"
            return f"{topology}: {count_text(steps, 'step')} in {count_text(rounds, 'round')}, {side}{led}"
        case team.TeamRoleBound(role=role, member=member) if role != member:
            return f"{member} has the role {role}"
        case team.TeamStepFailed(step=step, member=member, error=error, rung=rung):
            return f"{member} failed at step {step} ({error}): {RUNG_TEXTS[rung]}"
        case team.TeamChannelOpened(step=step, between=between, reason=reason):
            return f"{' and '.join(between)} may talk with each other about step {step}: {reason}"
        case team.TeamChannelClosed(between=between, messages=messages, settled=settled):
            how = "and agreed" if settled else "and did not agree"
            return f"{' and '.join(between)} exchanged {count_text(messages, 'message')} {how}; the lead decides"
        case _:
            return plan_note(event)


def detail_text(event: Event) -> str | None:
    """A routing decision or a workspace write, which only explanations and logs show; none for other events."""
    match event.fact:
        case team.TeamSelected(member=member, turn=turn, how="only"):
            return f"turn {turn} goes to {member}, the only eligible member"
        case team.TeamSelected(member=member, turn=turn, how=how, by=by) if how != "fallback":
            return f"turn {turn} goes to {member}, chosen by {by} ({READ_BY[how]})"
        case team.TeamRouted(source=source, to=None):
            return f"the route ends at {source}: none of its conditions holds"
        case team.TeamRouted(source=source, to=to, when=when) if when is not None:
            return f"from {source} to {to}, because {when}"
        case agent.WorkspaceWritten(name=name, revision=version):
            return f"writes {name}, version {version}"
        case agent.WorkspaceKept(artifact=artifact):
            return f"stores {artifact.name} ({artifact.media_type}, {size_text(artifact.size)})"
        case _:
            return None


def _note_of_step(event: Event) -> str | None:
    match event.fact:
        case team.StepSkipped(step=step, reason="stopped"):
            return f"step {step} was skipped: a person stopped it"
        case team.StepSkipped(step=step, reason="condition"):
            return f"step {step} was skipped: its condition does not hold"
        case team.StepSkipped(step=step, reason="needs", because=needs):
            return f"step {step} was skipped: there is no output from {', '.join(needs)}, which it needs"
        case team.StepSkipped(step=step, because=needs):
            return f"step {step} was skipped: it depends on {', '.join(needs)}, where a step failed"
        case team.StepHeldUp(step=step, keys=keys, by=by):
            return f"{f'step {step}' if step else 'it'} waits for {', '.join(keys)}, queued behind {', '.join(by)}"
        case _:
            return None


def _note_of_record(event: Event) -> str | None:
    match event.fact:
        case run.RunCheckpoint(name=name, by=by):
            return f"checkpoint {name}{f', set by {by}' if by else ''}"
        case run.RunLogged(level="warning" | "error" as level, text=text):
            return f"{level}: {text}"
        case agent.WorkspaceConflicted(name=name, based_on=base, revision=now, by=by):
            current = f"{now}, written by {by}" if by else f"{now}"
            return f"a write to {name} was refused: it was based on version {base}, but the current one is {current}"
        case agent.WorkspacePatched(member=name, commit=commit, files=files, added=added, removed=removed):
            return f"changes by {name} applied: {count_text(len(files), 'file')}, +{added} -{removed} ({commit[:12]})"
        case agent.WorkspaceRefused(member=name, reason=reason, files=files, resolver=resolver):
            then = f"; {resolver} gets them back" if resolver else ""
            return f"changes by {name} refused ({reason.replace('_', ' ')}): {', '.join(map(_place, files))}{then}"
        case _:
            return None


def _place(file: agent.RefusedFile) -> str:
    lines = ", ".join(f"{first}-{last}" for first, last in file.lines)
    return f"{file.path}:{lines}" if lines else file.path


def _origin_text(origin: run.Origin) -> str:
    match origin.how:
        case "fork":
            return f"forked from run {origin.run_id} {_point_of(origin)}"
        case "continue":
            return f"continues run {origin.run_id} {_point_of(origin)}"
        case "place":
            return f"answers {parent_key(origin.key)} of run {origin.run_id}"


def _point_of(origin: run.Origin) -> str:
    return f"at {origin.checkpoint} (event {origin.number})" if origin.checkpoint else f"(event {origin.number})"


def question_text(question: Question) -> str:
    """A question with its choices, with invisible and control characters made visible."""
    choices = " / ".join(map(visible, question.choices))
    return f"{visible(question.text)} [{choices}]" if choices else visible(question.text)


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
