"""The review of a member's work, by an evaluator, which gives its verdict, or by a person, who approves, edits or
rejects it; the work counts, is revised, or fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec.structs import replace
from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.agent import Agent, Context
from teamwright.agents.evaluators import Evaluator, dependence_of, failure_text, model_of, models_within, read_verdict
from teamwright.agents.json_schema import Schema, with_data, with_preferred_data
from teamwright.errors import AgentError, InvalidOutput
from teamwright.values.events.team import TeamEvaluationResult, TeamEvaluationStarted
from teamwright.values.people import ACCEPT, APPROVE, EDIT, REVISE, Answer, Question, review_question
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.text.display import LONGEST_ERROR, LONGEST_NAME, cut
from teamwright.values.turns.artifacts import TreeState
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import (
    CriterionResult,
    EvaluatedWork,
    EvaluationVerdict,
    Failure,
    Reply,
    ToolUse,
    Turn,
)

T = TypeVar("T")

REJECTED = "rejected"
"""The error kind of a reply or a step that a person rejected."""

QuestionAsker = Callable[[Question, str], Awaitable[Answer]]
"""Asks a person a question under this key."""


class ApprovalDecision(NamedTuple, Generic[T]):
    """A person's decision: approved, perhaps with an edited value, or rejected with a reason."""

    approved: bool
    edited: T | None = None
    reason: str = ""


class Draft(NamedTuple):
    """A reply that waits for approval; `preferred_schema` is the schema that its asker prefers."""

    reply: Reply
    member: Agent
    preferred_schema: Schema | None

    def edited(self, data: JsonValue) -> Reply:
        """The reply with another text; raises if its schema requires data that the text does not have."""
        text = edited_text(data)
        *before, last = self.reply.messages or (Message(name=self.member.name, content=""),)
        edited = self.reply.changed(messages=(*before, last.changed(content=text)), data=None, envelope_note=None)
        spec = self.member.spec
        if spec is not None and spec.output_schema is not None:
            return with_data(edited, spec.output_schema, "The edited reply")
        if self.reply.data is not None:
            return edited.changed(data=_parse_json(text))
        return with_preferred_data(edited, self.preferred_schema)


async def ask_for_decision(
    ask: QuestionAsker, question: Question, place: str, parse_edit: Callable[[JsonValue], T]
) -> ApprovalDecision[T]:
    """Ask a person; if `parse_edit` refuses an edit with an `AgentError`, ask again with that error in the question.

    An answer that is neither an approval nor an edit is a rejection.
    """
    asked, number = question, 1
    while True:
        answer = await ask(asked, place if number == 1 else f"{place}-{number}")
        if answer.text == APPROVE:
            return ApprovalDecision(approved=True)
        if answer.text != EDIT:
            return ApprovalDecision(approved=False, reason=rejection_reason(answer))
        try:
            return ApprovalDecision(approved=True, edited=parse_edit(answer.data))
        except AgentError as error:
            asked = question.changed(text=f"{question.text} (The last edit can't be used: {error})")
            number += 1


def edited_text(data: JsonValue) -> str:
    """Return the text of an edit; raises `AgentError` if the edit is not a string."""
    if not isinstance(data, str):
        raise AgentError("an edit must be a text")
    return data


def _parse_json(text: str) -> JsonValue:
    """Parse an edited text as JSON; return `None` if it is not."""
    try:
        return from_json(text)
    except ValueError:
        return None


def rejection_reason(answer: Answer) -> str:
    """Return who rejected something, and why where they said so."""
    who = answer.by or "a person"
    return f"{who} said no: {answer.data}" if answer.data else f"{who} said no"


REVIEW_EXCEEDED: Literal["review_exceeded"] = "review_exceeded"
"""The error of work that did not pass, and the stop reason of a run that it fails."""
UNREVIEWED: Literal["auto_pass_with_warning"] = "auto_pass_with_warning"
"""The outcome of work at low risk whose review broke off, and which counts with a warning."""
NOT_REVIEWED: Literal["not_reviewed"] = "not_reviewed"
"""The outcome of work that is not blank, without any declared criterion."""
ACCEPTED: Literal["accepted"] = "accepted"
"""The outcome of work that did not pass, and that a person accepts all the same."""
LEFT_OUT = "the evaluator gave no result for it"
BROKE_OFF = "the review broke off"
"""What is recorded of an evaluator, and of a judge, that the budget did not cover."""
LONGEST_REASON, MOST_NAMED = 500, 20
"""How much of what an evaluator says is kept in a verdict, which the author reads in every further round."""
SECOND = "second"
"""The first part of the keys of a review that follows the author's own evaluation."""
REVISION = (
    "Your answer was reviewed and does not pass yet. Answer the task again, in full, so that every criterion passes."
)

MOST_TOOL_TEXT = 16_000
"""How many characters of tool results one reader of them gets; what came first is left out."""

AskAgain = Callable[[Turn, str], Awaitable[Reply | Failure]]
"""Asks the author again with another turn, under another key."""


async def ask_evaluated(
    ctx: Context, member: Agent, turn: Turn, key: str, evaluator: Evaluator | None
) -> Reply | Failure:
    """Ask a member; with an evaluator, its reply has to pass."""
    if evaluator is None:
        return await ctx.ask(member, turn, key=key)
    merges, turn = turn.merges, reviewed_turn(turn, evaluator)
    ending = await ctx.ask(member, turn, key=key)
    ending = await pass_gate(ctx, member, evaluator, turn, key, ending, partial(_ask, ctx, member))
    return await ctx.merge(member, turn, ending, key=key) if merges else ending


def reviewed_turn(turn: Turn, evaluator: Evaluator) -> Turn:
    """Return the turn of work that is reviewed: its reply keeps the tool calls, for a judge and for a revision.

    Its changes go to the team's branch only if it passes.
    """
    return replace(turn, keeps_tool_uses=evaluator.declaration.reviews or turn.keeps_tool_uses, merges=False)


def tool_messages(uses: Sequence[ToolUse], most: int = MOST_TOOL_TEXT) -> list[Message]:
    """Return tool calls with their results as messages of their tools, so that they are quoted as all data is.

    At most so many characters are kept of all of them together, those of the last calls.
    """
    found: list[Message] = []
    for use in reversed(uses):
        text = f"Called with {use.arguments}, it {'failed' if use.failed else 'returned'}:\n{use.result}"
        if most <= 0:
            break
        found.append(Message(name=f"tool {use.tool}", content=cut(text, most), role="user"))
        most -= len(text)
    return found[::-1]


async def _ask(ctx: Context, member: Agent, turn: Turn, key: str) -> Reply | Failure:
    return await ctx.ask(member, turn, key=key)


async def pass_gate(
    ctx: Context,
    author: Agent,
    evaluator: Evaluator,
    turn: Turn,
    key: str,
    ending: Reply | Failure,
    again: AskAgain,
    *,
    own: bool = False,
) -> Reply | Failure:
    """Return the author's reply if it passes, in one of the rounds; otherwise a failure or a reply with a warning.

    The evaluation is the author's `own`, or one besides it.
    """
    rounds = EvaluationRounds(ctx, author, evaluator, turn, key, own=own)
    while isinstance(ending, Reply):
        await rounds.evaluate(ending)
        if (settled := await rounds.settle(ending)) is not None:
            return settled
        ending = await again(rounds.revision_turn(ending), rounds.work)
    return ending


class EvaluationRounds:
    """The rounds of one piece of work: each attempt of the author, and the verdict on it.

    `work` is the key of the ask that is evaluated next, and `author` who was asked there; the keys of a round begin
    with its number. `closing` says that a part of the budget is kept back for the evaluator.
    """

    def __init__(
        self,
        ctx: Context,
        author: Agent,
        evaluator: Evaluator,
        turn: Turn,
        key: str,
        *,
        own: bool = False,
        closing: bool = False,
    ) -> None:
        self._ctx, self.author, self._evaluator, self._turn = ctx, author, evaluator, turn
        is_second = not own and author.policy.evaluate is not None
        self._key = f"{SECOND}/{key}" if is_second else key
        self._attempts: list[Reply] = []
        self.verdicts: list[EvaluationVerdict] = []
        self._notes: dict[int, str] = {}
        """What a person wrote to the author after a review, by the number of the review."""
        self.work, self._revises, self._closing = key, "", closing

    @property
    def are_over(self) -> bool:
        """Whether the author was asked as often as it may be."""
        return len(self.verdicts) > self._evaluator.declaration.revisions

    async def evaluate(self, reply: Reply) -> EvaluationVerdict:
        """Ask the evaluator; record what it was asked and its verdict, completed to the criteria of the rubric."""
        declared, name, attempt = self._evaluator.declaration, self.author.name, len(self.verdicts) + 1
        key = f"evaluation-{attempt}/{self._key}"
        started = TeamEvaluationStarted(
            member=name,
            evaluator=declared.evaluator_name,
            attempt=attempt,
            work=self.work,
            criteria=tuple(one.id for one in declared.rubric),
            rubric=declared.rubric_digest,
        )
        await self._ctx.emit(started, key=f"{key}/started")
        verdict = completed(await self._ask_evaluator(reply, key), declared)
        verdict = verdict.changed(warnings=(*verdict.warnings, *evaluation_warnings(self.author, self._evaluator)))
        if verdict.outcome == REVIEW_EXCEEDED and declared.passes_unreviewed:
            verdict = verdict.changed(outcome=UNREVIEWED)
        elif verdict.outcome == "pass" and not declared.reviews:
            verdict = verdict.changed(outcome=NOT_REVIEWED, score=None)
        self.verdicts.append(verdict)
        await self._record(verdict, f"{key}/result")
        return verdict

    async def _ask_evaluator(self, reply: Reply, key: str) -> EvaluationVerdict:
        """Ask the evaluator, unless the author of a step turned out to be its own judge or to have its model."""
        for judge in self._evaluator.judges if self._evaluator.declaration.asks_judges else ():
            if problem := dependence_of(judge, self.author, self._evaluator.declaration):
                return EvaluationVerdict(outcome=REVIEW_EXCEEDED, feedback=problem)
        asked = Message(name="user", content=self._turn.task, role="user")
        # The work is the task: it is never cut, and its text is stored once.
        full = reply.full
        files = (*self._turn.attachments, *full.artifacts)
        work = EvaluatedWork(self.author.name, full.data, files, full.tool_uses)
        tree = TreeState.after(full.artifacts)
        question = Turn(
            full.text, History.of((asked,)), self._turn.number, "judge", work=work, closing=self._closing, tree=tree
        )
        return _verdict_in(await self._ctx.ask(self._evaluator, question, key=key))

    async def settle(self, reply: Reply) -> Reply | Failure | None:
        """Return what becomes of the work by the latest verdict on it; `None` if its author is asked again."""
        verdict, author = self.verdicts[-1], self.author
        if verdict.outcome in ("pass", NOT_REVIEWED):
            return reply
        if verdict.outcome == UNREVIEWED:
            return _with_warning(reply, f"{_unreviewed_text(author, verdict)}; it counts all the same, at low risk")
        if verdict.outcome != REVIEW_EXCEEDED and not self.are_over:
            return None
        if self._evaluator.declaration.on_failure == "ask":
            return await self._ask_person(reply)
        return _exceeded(author, self._evaluator.declaration, reply, self.verdicts)

    async def _ask_person(self, reply: Reply) -> Reply | Failure | None:
        """Let a person decide about work that exceeded its review: it counts, is revised once more, or fails."""
        number, declared = len(self.verdicts), self._evaluator.declaration
        text = f"{_exceeded_text(self.author, self.verdicts)}. Accept it, let {self.author.name!r} revise it, or stop?"
        question = review_question(text, reply.full.text, about=f"{self.work} {number}")
        answer = await self._ctx.ask_person(question, key=f"review-{number}/{self._key}")
        if answer.text == ACCEPT:
            accepted = self.verdicts[-1].changed(outcome=ACCEPTED, warnings=(), feedback="")
            await self._record(accepted, f"evaluation-{number}/{self._key}/accepted")
            self.verdicts[-1] = accepted
            return reply
        if answer.text == REVISE:
            self._notes[number] = answer.data if isinstance(answer.data, str) else ""
            return None
        return _exceeded(self.author, declared, reply, self.verdicts, f"; {answer.by or 'a person'} stopped it")

    async def _record(self, verdict: EvaluationVerdict, key: str) -> None:
        result = TeamEvaluationResult(
            member=self.author.name,
            attempt=len(self.verdicts),
            work=self.work,
            verdict=verdict,
            revises=self._revises,
        )
        await self._ctx.emit(result, key=key)

    def revision_turn(self, reply: Reply) -> Turn:
        """Begin the next round: return the author's next turn, with its answers so far and the verdict on each.

        Before an answer stand the results of the tools that it was made from.
        """
        self._attempts.append(reply.full)
        tree = TreeState.after(reply.full.artifacts) or self._turn.tree
        self.work, self._revises = f"revision-{len(self.verdicts) + 1}/{self._key}", self.work
        said = "\n\n".join(
            f"Review {number}: {self._review_text(number)}" for number in range(1, len(self.verdicts) + 1)
        )
        task = f"{self._turn.task}\n\n{REVISION}\n\n{said}"
        return replace(self._turn, task=task, history=History.of(self._history()), since=None, tree=tree)

    def _history(self) -> list[Message]:
        """Return the messages before the first attempt, and the attempts, with the results of the last tool calls."""
        attempts, left = list[Message](), MOST_TOOL_TEXT
        for reply in reversed(self._attempts):
            tools = tool_messages(reply.tool_uses, left)
            left -= sum(len(one.content) for one in tools)
            attempts += (Message(name=self.author.name, content=reply.text), *reversed(tools))
        return [*self._turn.history, *reversed(attempts)]

    def _review_text(self, number: int) -> str:
        """Return a review as its author reads it, with the note of a person; why a review broke off is not for it."""
        verdict, note = self.verdicts[number - 1], self._notes.get(number)
        said = BROKE_OFF if verdict.outcome == REVIEW_EXCEEDED else verdict_text(verdict)
        return f"{said}\nA person who read it says: {note}" if note else said


def _verdict_in(answer: Reply | Failure) -> EvaluationVerdict:
    """Return the verdict of an evaluator; one that fails, or gives no verdict, has not passed the work."""
    if isinstance(answer, Failure):
        is_unpaid = answer.error == "budget"
        how = f"failed ({answer.error}: {answer.message})" if is_unpaid else failure_text(answer)
        return EvaluationVerdict(outcome="review_exceeded", feedback=f"the evaluator {how}", unpaid=is_unpaid)
    try:
        return read_verdict(answer.full)
    except InvalidOutput as error:
        return EvaluationVerdict(outcome="review_exceeded", feedback=str(error))


def completed(verdict: EvaluationVerdict, declared: Evaluate) -> EvaluationVerdict:
    """Return the verdict with one result for each criterion of the rubric, in its order.

    A criterion that is missing, or that has several results of which one did not pass, is not passed. Work passes only
    if its results bear the outcome out, whatever the evaluator says.
    """
    given: defaultdict[str, list[CriterionResult]] = defaultdict(list)
    for one in verdict.criteria:
        given[one.id].append(one)
    ids = [one.id for one in declared.rubric]
    missing = [name for name in ids if name not in given]
    unknown = [cut(name, LONGEST_NAME) for name in (*(given.keys() - set(ids)), *verdict.unknown)]
    results = tuple(_one_result(name, given[name]) for name in ids)
    outcome = verdict.outcome
    if outcome == "pass" and not is_passing(results, declared):
        outcome = "revise"
    elif outcome in (UNREVIEWED, NOT_REVIEWED, ACCEPTED):  # never decisions of an evaluator
        outcome = REVIEW_EXCEEDED
    return verdict.changed(
        outcome=outcome,
        criteria=results,
        score=weighted_score(results, declared),
        feedback=cut(verdict.feedback, LONGEST_ERROR),
        suggestions=tuple(cut(text, LONGEST_REASON) for text in verdict.suggestions[:MOST_NAMED]),
        rubric=declared.rubric_digest,
        missing=tuple(dict.fromkeys((*missing, *(name for name in verdict.missing if name in ids)))),
        unknown=tuple(sorted(set(unknown))[:MOST_NAMED]),
    )


def _one_result(name: str, results: Sequence[CriterionResult]) -> CriterionResult:
    if not results:
        return CriterionResult(id=name, passed=False, score=0.0, reason=LEFT_OUT)
    worst = min(results, key=lambda one: (one.passed, one.score))
    return worst.changed(reason=cut(worst.reason, LONGEST_REASON))


def is_passing(results: Sequence[CriterionResult], declared: Evaluate) -> bool:
    """Return whether required criteria passed, and the weights of those that passed reach the threshold."""
    passed = {one.id for one in results if one.passed}
    if any(one.required and one.id not in passed for one in declared.rubric):
        return False
    share = sum(one.weight for one in declared.rubric if one.id in passed)
    return share >= declared.threshold * sum(one.weight for one in declared.rubric) * (1 - 1e-9)


def weighted_score(results: Sequence[CriterionResult], declared: Evaluate) -> float:
    """Return the weighted mean of the scores, to four places."""
    scores = {one.id: one.score for one in results}
    total = sum(one.weight for one in declared.rubric)
    return round(sum(one.weight * scores.get(one.id, 0.0) for one in declared.rubric) / total, 4)


def evaluation_warnings(author: Agent, evaluator: Evaluator) -> list[str]:
    """Return what a reader of the verdicts on this author should know: judges not asked, or of the author's model."""
    declared, authors = evaluator.declaration, models_within(author)
    found = declared.warnings()
    if declared.asks_judges:
        shared = {judge.name: model for judge in evaluator.judges if (model := model_of(judge)) in authors}
        found += [same_model_text(judge, author.name, model) for judge, model in shared.items()]
    return found


def same_model_text(judge: str, author: str, model: str) -> str:
    """Return the warning about a judge that has the model of its author."""
    return f"the judge {judge!r} has the model of {author!r}, {model!r}, and models prefer what they wrote"


def score_text(verdict: EvaluationVerdict) -> str:
    """Return the score of a verdict, to two places."""
    return "unknown" if verdict.score is None else f"{verdict.score:.2f}"


def verdict_text(verdict: EvaluationVerdict) -> str:
    """Return a verdict as its author reads it: what did not pass and why, feedback and suggestions."""
    lines = [f"score {score_text(verdict)}"]
    lines += [f"- {one.id}: {one.reason or 'not passed'}" for one in verdict.criteria if not one.passed]
    lines += [verdict.feedback] if verdict.feedback else []
    lines += [f"- {text}" for text in verdict.suggestions]
    return "\n".join(lines)


def _exceeded(
    author: Agent, declared: Evaluate, ending: Reply, verdicts: Sequence[EvaluationVerdict], why: str = ""
) -> Reply | Failure:
    """Return what becomes of work that did not pass: a failure, or the work with a warning."""
    text = f"{_exceeded_text(author, verdicts)}{why}"
    if declared.counts_with_warning:
        return _with_warning(ending, text)
    return Failure(
        member=author.name,
        error=REVIEW_EXCEEDED,
        message=text,
        messages=ending.messages,
        data=ending.data,
        warnings=ending.warnings,
        optional=author.policy.optional,
    )


def _exceeded_text(author: Agent, verdicts: Sequence[EvaluationVerdict]) -> str:
    last = verdicts[-1]
    if last.outcome == REVIEW_EXCEEDED:
        return _unreviewed_text(author, last)
    failed = ", ".join(one.id for one in last.criteria if not one.passed)
    rounds = f" in {len(verdicts)} rounds" if len(verdicts) > 1 else ""
    return f"the work of {author.name!r} did not pass its review{rounds}: {failed} (score {score_text(last)})"


def _unreviewed_text(author: Agent, verdict: EvaluationVerdict) -> str:
    return f"the work of {author.name!r} could not be reviewed: {verdict.feedback}"


def _with_warning(reply: Reply, text: str) -> Reply:
    return reply.changed(warnings=(*reply.warnings, text))
