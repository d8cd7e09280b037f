"""Words results, questions, budgets and the formation of a team, so that every command and view words them alike."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from json import loads as from_json
from shlex import quote
from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import clean, columns, json_text, one_line
from teamwright.errors import UsageError
from teamwright.history.member_board import BudgetLevels, Level
from teamwright.runtime.people.webhook import answer_command
from teamwright.values.limits import Amounts
from teamwright.values.people import EDIT
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.members import ExpertProfile
from teamwright.values.text.display import NOTHING, count_text, cut, number_text, price_text, seconds_text, visible
from teamwright.values.text.secrets import mask_value
from teamwright.values.turns.results import RunResult, RunSummary, Status, StopReason
from teamwright.values.value import JsonValue

if TYPE_CHECKING:
    from teamwright.history.run_history import RunHistory
    from teamwright.values.people import Answer, Question
    from teamwright.values.turns.turn import Failure
    from teamwright.values.usage_and_prices import Usage


def when_text(time: float) -> str:
    """A point in time in the user's time zone."""
    return datetime.fromtimestamp(time, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def usage_text(usage: Usage, inherited: int = 0) -> str:
    """What a run used: tokens in and out, requests, tool calls; a fork has `inherited` some of the tokens."""
    parts = [count_text(usage.total_tokens, "token")]
    if usage.total_tokens:
        cached = f", {number_text(usage.cached_tokens)} of them cached" if usage.cached_tokens else ""
        new = f"; {number_text(usage.total_tokens - inherited)} of them new" if inherited else ""
        parts[0] += f" ({number_text(usage.input_tokens)} in{cached}, {number_text(usage.output_tokens)} out{new})"
    parts.append(count_text(usage.requests, "model request"))
    if usage.tool_calls:
        parts.append(count_text(usage.tool_calls, "tool call"))
    return ", ".join(parts)


WHY: dict[tuple[Status, StopReason | None], str] = {
    ("completed", "terminated"): "A member ended the run with the terminate tool.",
    ("completed", "max_turns"): "The team reached its turn limit, which its manifest treats as success.",
    ("completed", None): "The team finished; the last reply is the answer.",
    ("failed", "max_turns"): "The team reached its turn limit, which its manifest treats as a failure.",
    ("failed", "review_exceeded"): "Work did not pass its review, or could not be reviewed.",
    ("failed", None): "A member failed and the team can't continue without it.",
    ("degraded", "budget"): "The next call would have exceeded the budget; the result is the output until then.",
    ("degraded", None): "The team finished, with warnings.",
    ("timeout", None): "The time limit was reached; the result is the output until then.",
    ("cancelled", None): "The run was cancelled.",
    ("paused", "person"): "The run waits for a person to answer.",
    ("paused", "approval"): "The run waits for a person to approve, edit or reject something.",
    ("paused", "retries_exhausted"): "A member failed that the team can't do without; a person decides what to do.",
    ("paused", "quota"): "A provider takes no calls for now.",
    ("paused", None): "The run is paused and can be resumed.",
    ("interrupted", None): "The process that drove the run stopped before its end; nothing recorded is lost.",
    ("queued", None): "The run waits in a queue for a worker.",
    ("running", None): "The run is in progress.",
}
"""Why a run has its status; the entry under `None` serves every stop reason without an entry of its own."""


def why_text(status: Status, stop_reason: StopReason | None, resume_at: str = "") -> str:
    """Why a run has its status, in sentences, and when a paused one can go on by itself."""
    why = WHY.get((status, stop_reason)) or WHY[status, None]
    return f"{why} It can go on from {moment_text(resume_at)}." if resume_at else why


def moment_text(time: str) -> str:
    """A recorded time in the user's time zone, to the second."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def status_text(result: RunResult) -> str:
    """A run's status, followed by its stop reason where that adds something."""
    redundant = result.stop_reason in {None, result.status}
    return result.status if redundant else f"{result.status} ({result.stop_reason})"


def summary(ended: RunResult, *, free: bool, inherited: int = 0) -> str:
    """One line with the run's status, usage, price, time and id; a fork has `inherited` some of its tokens."""
    price = price_text(ended.usage.usd, free=free)
    used = usage_text(ended.usage, inherited)
    parts = (status_text(ended), used, price, seconds_text(ended.seconds), f"run {ended.run_id}")
    return " · ".join(filter(None, parts))


def failure_text(failure: Failure) -> str:
    """Why a run failed: the kind of error, and its message if that says more."""
    return failure.error if failure.message == failure.error else f"{failure.error}: {failure.message}"


OUTPUT_HEADINGS = {"answer": "Answer", "partial": "Partial result", "rejected": "Rejected: it did not pass its review"}


def output_heading(result: RunResult) -> str:
    """The heading of a run's output, which is an answer only if the team finished."""
    return OUTPUT_HEADINGS[result.output_kind or "partial"]


def pending_answer_text(answer: Answer) -> str:
    """A person's answer that the run has not consumed yet."""
    return f"answered: {visible(answer.text)}{f', by {answer.by}' if answer.by else ''}"


def can_retry(history: RunHistory) -> bool:
    """Whether the run has a failure that `runs fork --retry` can retry."""
    from teamwright.history.fork import point_of_retry

    try:
        point_of_retry(history)
    except UsageError:
        return False
    return True


def next_steps(result: RunResult, questions: dict[str, Question], *, retries: bool = True) -> list[str]:
    """Commands that the user can run next, each with its purpose; `retries` says whether a failure can be retried."""
    run = result.run_id
    fork, resume = f"teamwright runs fork {run}", f"teamwright runs resume {run}"
    match result.status:
        case "paused" if questions:
            return _steps_of_questions(run, questions, resume)
        case "paused" | "interrupted":
            wait = " --wait" if result.resume_at else ""
            return [f"resume with: {resume}{wait}", f"or cancel it with: teamwright runs cancel {run}"]
        case "running" | "queued":
            return [
                f"follow with: teamwright runs show {run} --follow",
                f"or cancel it with: teamwright runs cancel {run}",
            ]
        case "failed" if result.stop_reason != "max_turns" and retries:
            return [f"retry from the failure: {fork} --retry"]
        case "failed" if result.stop_reason != "max_turns":
            return [f"fork from a checkpoint: {fork} --at POINT  (teamwright runs steer {run} checkpoint lists them)"]
        case "degraded" if result.stop_reason == "budget":
            kinds = "(or --max-usd X, --max-calls N, whichever ran out; limits of members and steps still apply)"
            return [f"continue with a larger budget: {fork} --max-tokens N  {kinds}"]
        case "timeout" | "cancelled" as status:
            return [_step_to_more_time(result, fork) if status == "timeout" else f"continue from there: {fork}"]
        case _:
            return [f'continue the conversation: teamwright run --continue {run} "…"']


def _step_to_more_time(result: RunResult, fork: str) -> str:
    """The command that continues a run out of time; no option raises the time of a team within the run's own."""
    outer, _, team = result.failure.member.rpartition("/") if result.failure is not None else ("", "", "")
    if not outer:
        return f"continue with more time: {fork} --max-seconds N"
    then = f'teamwright run MANIFEST --continue {result.run_id} "…"'
    return f"raise the time of {team!r} in its manifest; then: {then}"


def _steps_of_questions(run: str, questions: dict[str, Question], resume: str) -> list[str]:
    """Commands that answer what a run waits for, or let paused members go on, and then resume the run."""
    if all(one.reason == "pause" for one in questions.values()):
        members = (f"let it go on with: {answer_hint(run, None, one)}" for one in questions.values())
        return [*members, f"then: {resume}"]
    several = len(questions) > 1
    commands = [answer_hint(run, key if several else None, one) for key, one in questions.items()]
    return [*(f"answer with: {command}" for command in commands), f"then: {resume}"]


LONGEST_EDIT, UNSAID = 100, "{…}"
EDIT_TEXT = f'{EDIT} "…")'
"""The end of the command that answers an approval."""


def answer_hint(run_id: str, key: str | None, question: Question) -> str:
    """Return the command that answers a question; an edit of JSON begins with what is proposed, ready to be changed.

    Unlike the command in a notice for other hosts, it may hold the arguments of a call.
    """
    command = answer_command(run_id, key, question)
    if question.form != "json" or not command.endswith(EDIT_TEXT):
        return command
    return f"{command.removesuffix(EDIT_TEXT)}{EDIT} {quote(_proposed(question.draft))})"


def _proposed(draft: str | None) -> str:
    """The proposed JSON on one line; only its form if it is long, is no JSON, or has something that is masked."""
    try:
        value = from_json(draft or "")
    except ValueError:
        return UNSAID
    text = json_text(value, indent=None)
    return text if len(text) <= LONGEST_EDIT and mask_value(value) == value else UNSAID


def draft_lines(question: Question) -> list[str]:
    """The draft of a question, line by line, with invisible and control characters made visible."""
    return visible(question.draft or "").strip("\n").split("\n")


def draft_text(question: Question, most: int | None = None, whole: str = "") -> str:
    """The draft of a question behind a bar, cut to `most` lines; `whole` is the command that shows all of them."""
    lines = draft_lines(question)
    if most is not None and len(lines) > most:
        see = f"; see all of it with  {whole}" if whole else ""
        lines = [*lines[:most], f"… {len(lines) - most} more lines{see}"]
    return "\n".join(f"  | {line}" for line in lines)


MOST_LISTED = 20


def budget_lines(levels: BudgetLevels) -> list[str]:
    """The budget section of an explanation, after an empty line; empty if no level has a limit."""
    listed = [f"  {_name(level)}: {level_text(level, levels.driver_seconds)}" for level in levels]
    if not listed:
        return []
    lines = ["", "Budget", *listed[:MOST_LISTED]]
    if len(listed) > MOST_LISTED:
        lines.append(f"  … and {len(listed) - MOST_LISTED} more levels; --json has them all")
    return lines


def open_lines(levels: BudgetLevels, most: int) -> list[str]:
    """A line for each level in use, outermost first, at most `most` of them."""
    in_use = [level for level in levels if level.ended is None]
    shown = [f"{_name(level)}: {level_text(level, levels.driver_seconds)}" for level in in_use[:most]]
    return [*shown, f"and {len(in_use) - most} more budgets"] if len(in_use) > most else shown


def level_text(level: Level, now: float) -> str:
    """What one level has spent of its limits, with what is reserved for calls in flight or charged for lost ones."""
    parts = list(_bounds(level.limits, level.used(now), level.reserved(), level.of_unknown_cost()))
    if message := level.limits.message:
        parts.append(f"each request at most {', '.join(_plain(message))}")
    return " · ".join(parts)


def _bounds(limits: Amounts, spent: Amounts, held: Amounts, unknown: Amounts) -> Iterator[str]:
    if limits.tokens is not None:
        more = f" (+ {number_text(held.tokens)} reserved)" if held.tokens else ""
        yield f"{number_text(spent.tokens or 0)}{more} of {number_text(limits.tokens)} tokens" + (
            f", {number_text(unknown.tokens)} of them for calls of unknown cost" if unknown.tokens else ""
        )
    if limits.usd is not None:
        more = f" (+ {price_text(held.usd)} reserved)" if held.usd else ""
        yield f"{price_text(spent.usd or 0.0)}{more} of {price_text(limits.usd)}" + (
            f", {price_text(unknown.usd)} of it for calls of unknown cost" if unknown.usd else ""
        )
    if limits.calls is not None:
        more = f" (+ {held.calls} reserved)" if held.calls else ""
        yield f"{number_text(spent.calls or 0)}{more} of {number_text(limits.calls)} calls"
    if limits.seconds is not None:
        yield f"{seconds_text(spent.seconds or 0.0)} of {limits.seconds:g} s"


def _plain(amounts: Amounts) -> Iterator[str]:
    if amounts.tokens is not None:
        yield f"{number_text(amounts.tokens)} tokens"
    if amounts.usd is not None:
        yield price_text(amounts.usd)
    if amounts.seconds is not None:
        yield f"{amounts.seconds:g} s"


def _name(level: Level) -> str:
    return clean(level.scope) or "the run"


WORDS = {"template": "from the template {}", "written": "written for this run", "made_up": "made up"}


def formation_of(source: Source) -> str:
    """Return the formation of a team, one line for each expert, and the warnings; empty if it was not formed."""
    if source.formation is None:
        return ""
    rows = [(f"  {name}", *others) for name, *others in formation_rows(source)]
    return "\n".join((columns(rows), *(f"warning: {text}" for text in source.formation.warnings)))


def formation_rows(source: Source) -> list[tuple[str, str, str, str]]:
    """Return each expert of a formed team: its name, whether it leads, where it comes from, and why it is there."""
    profiles = {name: spec.expert for name, spec in source.manifest.agents.items()}
    leads = {name for name, one in profiles.items() if isinstance(one, ExpertProfile) and one.is_lead}
    roles = source.formation.roles if source.formation is not None else ()
    return [
        (role.name, "leads" if role.name in leads else "", WORDS[role.origin].format(role.template), role.reason)
        for role in roles
    ]


def recorded_formation(source: JsonValue) -> tuple[JsonValue, str]:
    """Return the formation in the recorded source of a run, as data and in lines; none if there is none."""
    if not isinstance(source, dict) or source.get("formation") is None:
        return None, ""
    return source["formation"], formation_of(Source.model_validate(source))


WIDEST_TEAM = 24


def time_text(time: str) -> str:
    """A recorded time in the user's time zone, to the minute."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M") if time else NOTHING


def run_cells(run: RunSummary, *, answered: bool = False) -> tuple[str, ...]:
    """What a row of a table says of a run: id, team, status, start, time, tokens and price."""
    team = cut(run.team, WIDEST_TEAM)
    reason = f" ({run.stop_reason})" if run.stop_reason and run.stop_reason not in {"done", run.status} else ""
    reason = " (answered)" if answered else reason
    status = "unreadable" if run.damage else f"{run.status}{reason}"
    price = NOTHING if run.usd is None else price_text(run.usd)
    return (
        one_line(run.id),
        one_line(team),
        status,
        time_text(run.started_at),
        seconds_text(run.seconds),
        number_text(run.total_tokens),
        price,
    )
