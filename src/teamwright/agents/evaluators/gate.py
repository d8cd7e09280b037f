"""The gate behind a member's work: an evaluator gives its verdict, and the work counts, is revised, or fails.

It works through a context alone, so strategies use it too. Whatever an evaluator does, work that it did not explicitly
pass does not pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from teamwright.agents.contract.context import AgentLike, Context
from teamwright.agents.evaluators.protocol import Evaluator, model_of, models_within, read_verdict
from teamwright.errors import InvalidOutput
from teamwright.values.events.team import TeamEvaluationResult, TeamEvaluationStarted
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.verdicts import CriterionResult, EvaluationVerdict

REVIEW_EXCEEDED = "review_exceeded"
"""The error of work that did not pass, and the stop reason of a run that it fails."""
LEFT_OUT = "the evaluator gave no result for it"
REVISE = (
    "Your answer was reviewed and does not pass yet. Answer the task again, in full, so that every criterion passes."
)

AskAgain = Callable[[Turn, str], Awaitable[Reply | Failure]]
"""Asks the author again with another turn, under another key."""


async def pass_gate(
    ctx: Context,
    author: AgentLike,
    evaluator: Evaluator,
    turn: Turn,
    key: str,
    ending: Reply | Failure,
    again: AskAgain,
) -> Reply | Failure:
    """Return the author's reply if it passes, in one of the rounds; otherwise a failure or a reply with a warning."""
    declared = evaluator.declaration
    verdicts: list[EvaluationVerdict] = []
    first, history = turn, list(turn.history)
    for attempt in range(1, declared.rounds + 1):
        if isinstance(ending, Failure):
            return ending
        verdict = await _evaluate(ctx, author, evaluator, first, ending, f"evaluation-{attempt}/{key}", attempt)
        verdicts.append(verdict)
        if verdict.outcome == "pass":
            return ending
        if verdict.outcome == "auto_pass_with_warning":
            return _with_warning(ending, f"{author.name}: counts without a complete review: {verdict.feedback}")
        if verdict.outcome == REVIEW_EXCEEDED or attempt == declared.rounds:
            break
        history.append(Message(name=author.name, content=ending.text))
        ending = await again(_revision_turn(first, history, verdicts), f"revision-{attempt + 1}/{key}")
    return _exceeded(author, declared, ending, verdicts)


async def _evaluate(
    ctx: Context, author: AgentLike, evaluator: Evaluator, turn: Turn, reply: Reply, key: str, attempt: int
) -> EvaluationVerdict:
    """Ask the evaluator, and record what it was asked and its verdict, completed to the criteria of the rubric."""
    declared = evaluator.declaration
    started = TeamEvaluationStarted(
        member=author.name,
        evaluator=declared.evaluator,
        attempt=attempt,
        criteria=tuple(one.id for one in declared.rubric),
        rubric=declared.rubric_digest,
        rubric_version=declared.version,
    )
    await ctx.emit(started, key=f"{key}/started")
    asked = Message(name="user", content=turn.task, role="user")
    # The work is the task: it is never cut, and its text is stored once.
    question = Turn(reply.full.text, History.of((asked,)), turn.number, "judge")
    answer = await ctx.ask(evaluator, question, key=key)
    verdict = completed(_verdict_in(answer), declared)
    if same := _shared_models(author, evaluator):
        verdict = verdict.changed(warnings=(*verdict.warnings, same))
    result = TeamEvaluationResult(member=author.name, attempt=attempt, verdict=verdict)
    await ctx.emit(result, key=f"{key}/result")
    return verdict


def _verdict_in(answer: Reply | Failure) -> EvaluationVerdict:
    """Return the verdict of an evaluator; one that fails, or gives no verdict, has not passed the work."""
    if isinstance(answer, Failure):
        return EvaluationVerdict(outcome="review_exceeded", feedback=f"the evaluator failed ({answer.error})")
    try:
        return read_verdict(answer.full)
    except InvalidOutput as error:
        return EvaluationVerdict(outcome="review_exceeded", feedback=str(error))


def completed(verdict: EvaluationVerdict, declared: Evaluate) -> EvaluationVerdict:
    """Return the verdict with one result for each criterion of the rubric, in its order.

    A criterion that is missing, or that has several results of which one did not pass, is not passed. Work passes only
    if none is missing, and the results bear the outcome out.
    """
    given = Counter(one.id for one in verdict.criteria)
    ids = [one.id for one in declared.rubric]
    results = tuple(_one_result(name, [one for one in verdict.criteria if one.id == name]) for name in ids)
    missing = tuple(name for name in ids if not given[name])
    unknown = tuple(dict.fromkeys(name for name in given if name not in ids))
    outcome = verdict.outcome
    if outcome == "pass" and not is_passing(results, declared):
        outcome = "revise"
    return verdict.changed(
        outcome=outcome,
        criteria=results,
        score=weighted_score(results, declared),
        rubric=declared.rubric_digest,
        missing=tuple(dict.fromkeys((*missing, *verdict.missing))),
        unknown=tuple(dict.fromkeys((*unknown, *verdict.unknown))),
    )


def _one_result(name: str, results: Sequence[CriterionResult]) -> CriterionResult:
    if not results:
        return CriterionResult(id=name, passed=False, score=0.0, reason=LEFT_OUT)
    return min(results, key=lambda one: (one.passed, one.score))


def is_passing(results: Sequence[CriterionResult], declared: Evaluate) -> bool:
    """Return whether required criteria passed, and the weights of those that passed reach the threshold."""
    passed = {one.id for one in results if one.passed}
    if any(one.required and one.id not in passed for one in declared.rubric):
        return False
    share = sum(one.weight for one in declared.rubric if one.id in passed)
    return share >= declared.threshold * sum(one.weight for one in declared.rubric) * (1 - 1e-9)


def weighted_score(results: Sequence[CriterionResult], declared: Evaluate) -> float:
    """Return the weighted mean of the scores, to four places."""
    scores = {one.id: min(max(one.score, 0.0), 1.0) for one in results}
    total = sum(one.weight for one in declared.rubric)
    return round(sum(one.weight * scores.get(one.id, 0.0) for one in declared.rubric) / total, 4)


def _shared_models(author: AgentLike, evaluator: Evaluator) -> str:
    """Return a warning if a judge has a model of the author, empty if not."""
    authors = models_within(author)
    for judge in evaluator.judges:
        if (model := model_of(judge)) in authors:
            return f"the judge {judge.name!r} has the model of the author, {model!r}"
    return ""


def _revision_turn(turn: Turn, history: Sequence[Message], verdicts: Sequence[EvaluationVerdict]) -> Turn:
    """Return the author's next turn: its answers so far, and the verdict on each."""
    said = "\n\n".join(f"Review {number}: {verdict_text(one)}" for number, one in enumerate(verdicts, start=1))
    return replace(turn, task=f"{turn.task}\n\n{REVISE}\n\n{said}", history=History.of(history), since=None)


def verdict_text(verdict: EvaluationVerdict) -> str:
    """Return a verdict as its author reads it: what did not pass and why, feedback and suggestions."""
    lines = [f"score {verdict.score:.2f}"]
    lines += [f"- {one.id}: {one.reason or 'not passed'}" for one in verdict.criteria if not one.passed]
    lines += [verdict.feedback] if verdict.feedback else []
    lines += [f"- {text}" for text in verdict.suggestions]
    return "\n".join(lines)


def _exceeded(
    author: AgentLike, declared: Evaluate, ending: Reply | Failure, verdicts: Sequence[EvaluationVerdict]
) -> Reply | Failure:
    """Return what becomes of work that did not pass: a failure, or the work with a warning."""
    if isinstance(ending, Failure):
        return ending
    last = verdicts[-1]
    if last.outcome == REVIEW_EXCEEDED:
        text = f"the work of {author.name!r} could not be reviewed: {last.feedback}"
    else:
        failed = ", ".join(one.id for one in last.criteria if not one.passed)
        rounds = f" in {len(verdicts)} rounds" if len(verdicts) > 1 else ""
        text = f"the work of {author.name!r} did not pass its review{rounds}: {failed} (score {last.score:.2f})"
    if declared.on_exceeded == "warn":
        return _with_warning(ending, text)
    return Failure(
        member=author.name,
        error=REVIEW_EXCEEDED,
        message=text,
        messages=ending.messages,
        data=ending.data,
        warnings=ending.warnings,
    )


def _with_warning(reply: Reply, text: str) -> Reply:
    return reply.changed(warnings=(*reply.warnings, text))
