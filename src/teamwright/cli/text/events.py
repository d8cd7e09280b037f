"""How numbers, times and events are put into words, the same in every view."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from teamwright.budget.ledger import refusal_text
from teamwright.errors import UsageError
from teamwright.runtime.webhooks.notice import FOR_PEOPLE, answer_command
from teamwright.values.events.agent import (
    AgentAbandoned,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentRecovered,
    AgentReplied,
)
from teamwright.values.events.budget import (
    BudgetDegraded,
    BudgetEased,
    BudgetExceeded,
    BudgetRefused,
    BudgetThrottled,
    BudgetUnpriced,
)
from teamwright.values.events.custom import Custom
from teamwright.values.events.event import Event
from teamwright.values.events.person import PersonAnswered, PersonAsked
from teamwright.values.events.run import (
    Origin,
    RunAborted,
    RunCheckpoint,
    RunEnded,
    RunInterrupted,
    RunIntervened,
    RunLogged,
    RunNotified,
    RunPaused,
    RunResumed,
    RunStarted,
    ScopeExpired,
)
from teamwright.values.events.step import StepHeldUp, StepSkipped
from teamwright.values.events.team import (
    TeamBounded,
    TeamChannelClosed,
    TeamChannelOpened,
    TeamDecided,
    TeamEmitted,
    TeamEscalated,
    TeamGoalReached,
    TeamPlanned,
    TeamRouted,
    TeamSelected,
    TeamToldBack,
)
from teamwright.values.events.workspace import WorkspaceConflicted, WorkspaceKept, WorkspaceWritten
from teamwright.values.limits.reply import is_reply_cut_warning
from teamwright.values.people.interventions import Mark
from teamwright.values.people.questions import REJECT
from teamwright.values.results import RunResult, Status, StopReason
from teamwright.values.text.control_characters import visible
from teamwright.values.text.display import count_text, number_text

if TYPE_CHECKING:
    from teamwright.history.history import RunHistory
    from teamwright.values.limits.usage import Usage
    from teamwright.values.people.questions import Answer, Question
    from teamwright.values.turns.turn import Failure

ERROR_WORDS = {
    "rate_limit": "the provider asked to slow down",
    "context_length": "the prompt was too long for the model",
    "timeout": "no answer in time",
    "server": "the service failed or could not be reached",
    "refused": "the provider refused",
    "invalid_output": "the answer did not fit its schema",
    "invalid_input": "the task did not fit the agent's schema",
    "budget": "the budget did not allow it",
    "deadline": "the time was used up",
    "tool": "a tool failed",
    "script": "the script has no rule for it",
    "expression": "a condition or a template could not be worked out",
    "crash": "the agent's code failed",
    "cancelled": "stopped",
    "rejected": "a person said no",
}

READ_BY = {
    "structured": "as structured output",
    "exact": "by name",
    "case": "by name, in other letters",
    "mention": "its answer names one who may speak",
}
"""How a selector's answer was read."""


RUNGS = {
    "peer_talk": "the budget will not last: workers no longer talk with each other",
    "summaries": "the budget will not last: summaries keep to {after:.0%} of their length",
    "workers": "the budget will not last: at most {after:g} work at once",
    "economy": "the budget will not last: members of lower priority answer with cheaper models",
    "compaction": "the budget will not last: only the last {after:g} messages are told whole",
}
UNDONE = {
    "peer_talk": "workers may talk with each other",
    "summaries": "summaries may be longer",
    "workers": "more may work at once",
    "economy": "everybody answers with the own model",
    "compaction": "earlier messages are told whole",
}
"""What the rungs of the degradation ladder mean, taken and undone."""
TOOL_CALL = "tool-"
"""How the places of tool calls begin."""
LONG_WAIT = 1.0
"""Seconds that a call must have waited for its turn to be worth a word."""


def seconds_text(seconds: float) -> str:
    """A length of time: 0.4 s, 12.3 s, 2 min 5 s, 1 h 4 min; none is negative, whatever a clock did."""
    seconds = max(0.0, seconds)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def size_text(size: float) -> str:
    """A number of bytes: 512 B, 1.5 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit takes everything")


def price_text(usd: float | None, *, free: bool = False) -> str:
    """A price, or that none is known; nothing at all where what was used is `free`."""
    if usd is None:
        return "" if free else "no price known"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}"


def when_text(time: float) -> str:
    """A point in time, for people, in their own time zone."""
    return datetime.fromtimestamp(time, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def usage_text(usage: Usage) -> str:
    """What a run used: tokens in and out, requests, tool calls."""
    parts = [count_text(usage.total_tokens, "token")]
    if usage.total_tokens:
        parts[0] += f" ({number_text(usage.input_tokens)} in, {number_text(usage.output_tokens)} out)"
    parts.append(count_text(usage.requests, "model request"))
    if usage.tool_calls:
        parts.append(count_text(usage.tool_calls, "tool call"))
    return ", ".join(parts)


WHY: dict[tuple[Status, StopReason | None], str] = {
    ("completed", "terminated"): "A member ended the work with the terminate tool.",
    ("completed", "max_turns"): "The team stopped at its limit of turns, as it was told to.",
    ("completed", None): "The team came to the end of its work; the last reply is the answer.",
    ("failed", "max_turns"): "The team reached its limit of turns, which its manifest calls a failure.",
    ("failed", None): "A member failed and the team can't go on without it.",
    ("degraded", "budget"): "The next call would not have fitted the budget; the result is what was said until then.",
    ("degraded", None): "The team finished, with warnings.",
    ("timeout", None): "The time was used up; the result is what was said until then.",
    ("cancelled", None): "Somebody cancelled the run.",
    ("paused", "person"): "The run waits for a person.",
    ("paused", "approval"): "The run waits for a person to approve, edit or reject something.",
    ("paused", "retries_exhausted"): "A member failed that the team can't do without; a person says how to go on.",
    ("paused", None): "The run was set down and waits to be resumed.",
    ("interrupted", None): "Whoever drove the run stopped before its end; nothing that is recorded is lost.",
    ("running", None): "The run is under way.",
}
"""Why a run stands where it stands; under `None` for every reason that has no words of its own."""


def why_text(status: Status, stop_reason: StopReason | None) -> str:
    """Why a run stands where it stands, as a sentence."""
    return WHY.get((status, stop_reason)) or WHY[status, None]


def status_text(result: RunResult) -> str:
    """How a run stands, in two words: its status and what stopped it."""
    said = result.stop_reason in {None, result.status}
    return result.status if said else f"{result.status} ({result.stop_reason})"


def failure_text(failure: Failure) -> str:
    """Why a run failed: the kind of error, and what it says beyond that."""
    return failure.error if failure.message == failure.error else f"{failure.error}: {failure.message}"


def answer_word(result: RunResult) -> str:
    """What the output is: an answer only where the team came to its end."""
    whole = result.status == "completed" or (result.status == "degraded" and result.stop_reason == "done")
    return "Answer" if whole else "What there is so far"


def waiting_answer_text(answer: Answer) -> str:
    """An answer that the run has not taken yet."""
    return f"answered: {visible(answer.text)}{f', by {answer.by}' if answer.by else ''}"


def can_retry(history: RunHistory) -> bool:
    """Whether `runs fork --retry` finds what to try again."""
    try:
        history.before_failure()
    except UsageError:
        return False
    return True


def next_steps(result: RunResult, questions: dict[str, Question], *, retries: bool = True) -> list[str]:
    """Commands that can follow, each with what it is for; without `retries` there is no failure to go back to."""
    run = result.run_id
    fork, resume = f"teamwright runs fork {run}", f"teamwright runs resume {run}"
    match result.status:
        case "paused" if questions:
            several = len(questions) > 1
            ways = [answer_command(run, key if several else None, one) for key, one in questions.items()]
            return [*(f"answer with: {way}" for way in ways), f"then: {resume}"]
        case "paused" | "interrupted":
            return [f"resume with: {resume}", f"or end it with: teamwright runs cancel {run}"]
        case "running":
            return [f"follow with: teamwright runs tail {run}", f"or end it with: teamwright runs cancel {run}"]
        case "failed" if result.stop_reason != "max_turns" and retries:
            return [f"try again from the failure: {fork} --retry"]
        case "failed" if result.stop_reason != "max_turns":
            return [f"go back to one of its points: {fork} --at POINT  (teamwright runs checkpoints {run} lists them)"]
        case "degraded" if result.stop_reason == "budget":
            kinds = "(or --max-usd X, --max-calls N, whichever ran out; limits of members and steps stand)"
            return [f"go on with a larger budget: {fork} --max-tokens N  {kinds}"]
        case "timeout" | "cancelled":
            return [f"go on from there: {fork}"]
        case _:
            return [f'go on in the same conversation: teamwright run --continue {run} "…"']


USUAL = (
    TeamDecided, TeamEmitted, TeamGoalReached, TeamPlanned, TeamChannelOpened, TeamChannelClosed, StepSkipped,
    StepHeldUp, RunCheckpoint, PersonAnswered,
)  # fmt: skip


def mark_of(event: Event) -> Literal["·", "!"]:
    """What stands before a note: the second where something is out of the ordinary."""
    return "·" if isinstance(event.fact, USUAL) else "!"


def note_text(event: Event) -> str | None:
    """What a reader must know besides who said what; nothing for events that are the usual course."""
    match event.fact:
        case RunStarted(origin=origin) if origin is not None:
            word = "forked from" if origin.how == "fork" else "continues"
            return f"{word} run {origin.run_id} {_point_of(origin)}"
        case RunResumed(driver=driver):
            return f"the run was taken up again{f' by {driver}' if driver else ''}"
        case RunPaused(stop_reason=reason):
            return _set_down_text(reason)
        case RunIntervened(intervention=Mark()):
            return None  # the checkpoint tells of itself
        case RunIntervened() | RunAborted() as fact:
            return _intervention_text(fact)
        case ScopeExpired(seconds=seconds):
            return f"its {seconds:g} seconds were used up"
        case RunEnded():
            return None
        case _:
            return _note_of_member(event)


def _intervention_text(fact: RunIntervened | RunAborted) -> str:
    if isinstance(fact, RunAborted):
        return f"aborted by a person over the failure of {fact.member}"
    return f"somebody sent: {fact.intervention.kind}"


def _set_down_text(reason: StopReason) -> str:
    if reason not in FOR_PEOPLE:
        return f"set down: {reason}"
    return "the run was set down to wait for a person" + ("" if reason == "person" else f" ({reason})")


def _note_of_member(event: Event) -> str | None:
    match event.fact:
        case AgentCalled(in_doubt=True, name=name):
            return f"the call to {name} before was in doubt (nobody knows whether it arrived), so it was made again"
        case AgentCalled(waited=waited, name=name) if waited >= LONG_WAIT:
            return f"waited {seconds_text(waited)} for its turn at {name}"
        case AgentCallFailed():
            return _failed_call_text(event.place, event.fact)
        case AgentFailed(error="budget"):
            return None  # the call that was refused tells of itself
        case AgentFailed(error=error, message=message):
            return "stopped before its end" if error == "cancelled" else f"failed: {message}"
        case AgentReplied(truncated=True, warnings=warnings):
            by_size = any(map(is_reply_cut_warning, warnings))
            return f"the reply was cut at its {'size' if by_size else 'output'} cap"
        case AgentAbandoned(name=name, grace=grace):
            return f"{name} did not stop within {seconds_text(grace)} and was left behind"
        case _:
            return (
                _note_of_people(event)
                or _note_of_recovery(event)
                or _note_of_budget(event)
                or _note_of_team(event)
                or _note_of_plan(event)
                or _note_of_step(event)
                or _note_of_record(event)
            )


def _failed_call_text(place: str, failed: AgentCallFailed) -> str:
    """That a call failed, and what comes of it: a failed tool call is told to the member, which goes on."""
    why = f"{failed.message} ({ERROR_WORDS.get(failed.error, failed.error)})"
    if place.startswith(TOOL_CALL):
        return f"the tool call failed: {why}; the member is told and goes on"
    ending = "gave up" if failed.retry_in is None else f"again in {seconds_text(failed.retry_in)}"
    return f"attempt {failed.attempt} failed: {why}; {ending}"


def _note_of_people(event: Event) -> str | None:
    match event.fact:
        case PersonAsked(question=question):
            return f"asks {visible(question.to or 'a person')}: {question_text(question)}"
        case PersonAnswered(answer=answer):
            why = f" ({answer.data})" if answer.text == REJECT and answer.data else ""
            return f"was answered{f' by {answer.by}' if answer.by else ''}: {answer.text}{why}"
        case RunInterrupted():
            return "whoever drove the run was told to stop"
        case RunNotified() as fact:
            return _note_of_webhook(fact)
        case _:
            return None


def _note_of_webhook(fact: RunNotified) -> str:
    if fact.error is None:
        return "somebody was told that it waits" + (f" (attempt {fact.attempt})" if fact.attempt > 1 else "")
    if fact.retry_in is None:
        return f"nobody could be told that it waits: {fact.error}"
    again = f"attempt {fact.attempt} failed, the next one is in {seconds_text(fact.retry_in)}"
    return f"nobody could be told yet that it waits ({again}): {fact.error}"


def _note_of_recovery(event: Event) -> str | None:
    match event.fact:
        case AgentRecovered(member=member, error=error, how="fell_back", to=to):
            whom = "another model is asked" if to == member else f"{to} is asked instead"
            return f"{member} failed ({error}); {whom}"
        case AgentRecovered(member=member, how="summarised"):
            return f"the conversation was too long for {member}, so it is asked again with a summary"
        case AgentRecovered(member=member, error=error):
            return f"{member} failed ({error}), and the team can't do without it"
        case _:
            return None


def _note_of_budget(event: Event) -> str | None:
    match event.fact:
        case BudgetRefused(level=level, what=what, needed=needed, left=left, limit=limit):
            return f"a call was refused: {refusal_text(level, what, needed, left, limit)}"
        case BudgetExceeded(level=level, over=over, what=what):
            more = price_text(over) if what == "usd" else f"{over} tokens"
            return f"the provider reported {more} more than was reserved at {level or 'the run'!r}"
        case BudgetUnpriced() as fact:
            return fact.warning
        case BudgetDegraded(rung=rung, after=after, reason=reason, undone=undone):
            again = f"the budget gives room again: {UNDONE.get(rung, rung)}"
            return f"{again if undone else RUNGS.get(rung, rung).format(after=after)} ({reason})"
        case BudgetThrottled(model=model, before=before, after=after, seconds=seconds):
            rest = f"rests for {seconds_text(seconds)}" if seconds else ""
            fewer = f"takes {after} at once instead of {before}" if after != before else ""
            return f"{model} asked to slow down: it {' and then '.join(filter(None, (rest, fewer)))}"
        case BudgetEased(model=model, concurrency=count):
            return f"{model} takes {count} at once again"
        case Custom(domain=domain, name=name):
            return f"{domain} {name}"
        case _:
            return None


def _note_of_team(event: Event) -> str | None:
    match event.fact:
        case TeamDecided(by=by, action=action, iteration=number, to=to):
            whom = f" to {', '.join(to)}" if to else ""
            return f"decision {number} of {by}: {action}{whom}"
        case TeamToldBack(member=member, problem=problem):
            return f"{member} is asked again, since its answer can't be used: {problem}"
        case TeamEmitted(type=kind, by=by, to=to):
            return f"event {kind}{f' from {by}' if by else ''}, to {', '.join(to) or 'nobody'}"
        case TeamBounded(limit=limit, most=most, type=kind, by=by) as fact:
            return f"stopped by {limit} ({most}): {kind} from {by} does not happen, {fact.chain_text}"
        case TeamGoalReached(by=by, at_work=at_work, waiting=waiting):
            return f"{by} reached the goal; {at_work} at work are stopped, {count_text(waiting, 'reaction')} dropped"
        case TeamEscalated(member=member, risk_level=risk, to=to, reason=reason):
            why = f", since {reason}" if reason else ""
            return f"{member} reports {risk} risk; its reply counts only if {to or 'a person'} lets it pass{why}"
        case TeamSelected(member=member, turn=turn, how="fallback", reason=reason):
            return f"turn {turn} falls to {member}, the first who may speak, since {reason}"
        case _:
            return None


def _note_of_plan(event: Event) -> str | None:
    match event.fact:
        case TeamPlanned(topology=topology, steps=steps, rounds=rounds, width=width, lead=lead):
            led = f", led by {lead}" if lead else ""
            side = f"{width} at once" if width > 1 else "one at a time"
            return f"{topology}: {count_text(steps, 'step')} in {count_text(rounds, 'round')}, {side}{led}"
        case TeamChannelOpened(step=step, between=between, reason=reason):
            return f"{' and '.join(between)} may talk with each other about step {step}: {reason}"
        case TeamChannelClosed(between=between, messages=messages, settled=settled):
            how = "and settled it" if settled else "and did not settle it"
            return f"{' and '.join(between)} told each other {count_text(messages, 'message')} {how}; the lead rules"
        case _:
            return None


def way_text(event: Event) -> str | None:
    """Who is next and why and what was stored, for whoever was not there; nothing for what goes without saying."""
    match event.fact:
        case TeamSelected(member=member, turn=turn, how="only"):
            return f"turn {turn} is {member}'s, the only one who may speak"
        case TeamSelected(member=member, turn=turn, how=how, by=by) if how != "fallback":
            return f"turn {turn} is {member}'s: {by} chose ({READ_BY[how]})"
        case TeamRouted(source=source, to=None):
            return f"no way leads on from {source}: none of its conditions holds"
        case TeamRouted(source=source, to=to, when=when) if when is not None:
            return f"from {source} on to {to}, since {when}"
        case WorkspaceWritten(name=name, revision=version):
            return f"writes {name}, version {version}"
        case WorkspaceKept(artifact=artifact):
            return f"keeps {artifact.name} ({artifact.media_type}, {size_text(artifact.size)})"
        case _:
            return None


def _note_of_step(event: Event) -> str | None:
    match event.fact:
        case StepSkipped(step=step, reason="condition"):
            return f"step {step} was skipped: its condition does not hold"
        case StepSkipped(step=step, reason="needs", because=needs):
            return f"step {step} was skipped: there is nothing from {', '.join(needs)}, which it needs"
        case StepSkipped(step=step, because=needs):
            return f"step {step} was skipped: it stands on {', '.join(needs)}, and a step failed there"
        case StepHeldUp(step=step, keys=keys, by=by):
            return f"{f'step {step}' if step else 'it'} waits for {', '.join(keys)}, behind {', '.join(by)}"
        case _:
            return None


def _note_of_record(event: Event) -> str | None:
    match event.fact:
        case RunCheckpoint(name=name, by=by):
            return f"checkpoint {name}{f', set by {by}' if by else ''}"
        case RunLogged(level="warning" | "error" as level, text=text):
            return f"{level}: {text}"
        case WorkspaceConflicted(name=name, based_on=base, revision=now, by=by):
            return f"a write to {name} was refused: it was based on version {base}, and {by or 'nobody'} wrote {now}"
        case _:
            return None


def _point_of(origin: Origin) -> str:
    return f"at {origin.checkpoint} (event {origin.number})" if origin.checkpoint else f"(event {origin.number})"


def draft_lines(question: Question) -> list[str]:
    """What a question is about, line by line, with every character that a screen would hide or obey."""
    return visible(question.draft or "").strip("\n").split("\n")


def draft_text(question: Question, most: int | None = None, whole: str = "") -> str:
    """What a question is about, behind a bar, and at most so many lines of it; `whole` is how to see all of them."""
    lines = draft_lines(question)
    if most is not None and len(lines) > most:
        see = f"; see all of it with  {whole}" if whole else ""
        lines = [*lines[:most], f"… {len(lines) - most} more lines{see}"]
    return "\n".join(f"  | {line}" for line in lines)


def question_text(question: Question) -> str:
    """A question with its choices, with every character that a screen would hide or obey."""
    choices = " / ".join(map(visible, question.choices))
    return f"{visible(question.text)} [{choices}]" if choices else visible(question.text)
