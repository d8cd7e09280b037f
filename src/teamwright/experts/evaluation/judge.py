"""A judge: an agent that answers criteria, once or several times. Its answers are reduced to one result each.

A judge can lower a result by an answer that is missing, unusable or contradicts itself, and never raise one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent
from teamwright.agents.contract.context import Context
from teamwright.agents.evaluators.protocol import failure_text, model_of
from teamwright.agents.retry import FUTILE, RETRYABLE
from teamwright.experts.evaluation.judge_prompt import (
    JudgeAnswer,
    JudgedCriterion,
    answer_schema,
    judge_prompt,
    read_judgement,
)
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.specs.evaluation import Criterion, Reducer
from teamwright.values.turns.turn import Failure, Turn
from teamwright.values.verdicts import CriterionResult, JudgeRecord

REDUCERS = {"median": median, "mean": fmean, "min": min}
LEFT_OUT = "the judge gave no result for it"
CONTRADICTION = "the judge contradicts itself: "

ById = Mapping[str, Sequence[JudgedCriterion]]
"""What one answer says, by the id of the criterion."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge said: a result for each criterion, its feedback, and how it was asked.

    `problem` says why its answers can't be used, empty if they can.
    """

    results: tuple[CriterionResult, ...]
    record: JudgeRecord
    feedback: str = ""
    suggestions: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """An agent or team that judges, how often it is asked, and how several answers become one."""

    agent: Agent
    times: int = 1
    reducer: Reducer = "median"

    async def judge(self, task: str, work: str, criteria: Sequence[Criterion], ctx: Context, key: str) -> Judgement:
        """Ask the judge and return its results; most of its answers have to be usable."""
        prompt = judge_prompt(task, work, criteria)
        answers: list[JudgeAnswer] = []
        shown: list[str] = []
        unusable: list[str] = []
        # The prompt contains a quoted transcript.
        turn = Turn(prompt, purpose="judge", output_schema=answer_schema(), quotes_task=False, aside=True)
        for number in range(1, self.times + 1):
            shown.append(turn.digest)
            reply = await ctx.ask(self.agent, turn, key=f"{key}-{number}")
            if isinstance(reply, Failure):
                unusable.append(f"it {failure_text(reply)}")
                if reply.error in FUTILE:
                    break
                if reply.error in RETRYABLE:
                    turn = replace(turn, may_retry=False)
                continue
            answer = read_judgement(reply, work)
            if isinstance(answer, ParseFailure):
                unusable.append(answer.problem)
            else:
                answers.append(answer)
        return self._judgement(criteria, answers, tuple(shown), tuple(unusable))

    def _judgement(
        self,
        criteria: Sequence[Criterion],
        answers: Sequence[JudgeAnswer],
        shown: tuple[str, ...],
        unusable: tuple[str, ...],
    ) -> Judgement:
        said = [_by_id(answer) for answer in answers]
        scores = tuple(_score(criteria, one) for one in said)
        spread = round(max(scores) - min(scores), 4) if scores else 0.0
        record = JudgeRecord(
            member=self.agent.name,
            model=model_of(self.agent),
            shown=shown,
            scores=scores,
            spread=spread,
            unusable=unusable,
        )
        ids = {one.id for one in criteria}
        return Judgement(
            tuple(self._result(one, said) for one in criteria),
            record,
            feedback="\n".join(dict.fromkeys(answer.feedback for answer in answers if answer.feedback)),
            suggestions=tuple(dict.fromkeys(text for answer in answers for text in answer.suggestions)),
            unknown=tuple(sorted(set[str]().union(*said) - ids)),
            missing=tuple(one.id for one in criteria if not all(one.id in given for given in said)),
            problem=self._problem(len(answers), unusable),
        )

    def _problem(self, usable: int, unusable: Sequence[str]) -> str:
        if 2 * usable > self.times:
            return ""
        return f"the judge {self.agent.name!r} gave no usable answer: {unusable[0]}"

    def _result(self, criterion: Criterion, said: Sequence[ById]) -> CriterionResult:
        """Reduce the answers to a criterion: it passes if most of them pass it and the reduced score is high enough."""
        each = [read_result(criterion, one.get(criterion.id, ())) for one in said]
        if not each:
            return CriterionResult(
                id=criterion.id, passed=False, score=0.0, reason="there is no usable answer", by=self.agent.name
            )
        score = round(float(REDUCERS[self.reducer]([one.score for one in each])), 4)
        count = sum(one.passed for one in each)
        enough = count == len(each) if self.reducer == "min" else 2 * count > len(each)
        passed = enough and score >= criterion.at_least
        reason = next((one.reason for one in each if one.passed == passed and one.reason), "")
        return CriterionResult(id=criterion.id, passed=passed, score=score, reason=reason, by=self.agent.name)


def _by_id(answer: JudgeAnswer) -> ById:
    found: defaultdict[str, list[JudgedCriterion]] = defaultdict(list)
    for one in answer.criteria:
        found[one.id].append(one)
    return found


def read_result(criterion: Criterion, given: Sequence[JudgedCriterion]) -> CriterionResult:
    """Return the result of a criterion by what one answer says of it; nothing and a contradiction do not pass it."""
    if not given:
        return CriterionResult(id=criterion.id, passed=False, score=0.0, reason=LEFT_OUT)
    worst = min(given, key=lambda one: (one.passed, -1.0 if one.score is None else one.score))
    if problem := _contradiction(criterion, given):
        return CriterionResult(id=criterion.id, passed=False, score=0.0, reason=f"{CONTRADICTION}{problem}")
    score = worst.score if worst.score is not None else float(worst.passed)
    return CriterionResult(id=criterion.id, passed=worst.passed, score=score, reason=worst.reason)


def _contradiction(criterion: Criterion, given: Sequence[JudgedCriterion]) -> str:
    """Return how answers to one criterion contradict each other or their scores; empty if they do not."""
    if len({one.passed for one in given}) > 1:
        return "it both passes and does not"
    for one in given:
        if one.score is not None and one.passed != (one.score >= criterion.at_least):
            return f"it {'passes' if one.passed else 'does not pass'} with a score of {one.score:g}"
    return ""


def _score(criteria: Sequence[Criterion], said: ById) -> float:
    """Return the weighted score of one answer."""
    total = sum(one.weight for one in criteria)
    return round(sum(one.weight * read_result(one, said.get(one.id, ())).score for one in criteria) / total, 4)
