"""The conformance suite passes an honest evaluator, and finds each mistake of another."""

from __future__ import annotations

import pytest

from teamwright.agents.agent import Context
from teamwright.agents.evaluators import EVALUATOR, Evaluator, verdict_reply
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.testing import EvaluatorConformance, check_evaluator
from teamwright.values.turns.turn import CriterionResult, EvaluationVerdict, Failure, Reply, Turn
from tests.kit.evaluators import WordEvaluator, words

GOOD, BAD = "a good text", "a text"


class TestWordEvaluator(EvaluatorConformance):
    good, bad = GOOD, BAD

    def make(self) -> Evaluator:
        return WordEvaluator(words("one", "two"))


def passing(*ids: str) -> EvaluationVerdict:
    return EvaluationVerdict(
        outcome="pass", criteria=tuple(CriterionResult(id=one, passed=True, score=1) for one in ids)
    )


class Lenient(WordEvaluator):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return verdict_reply(self.name, passing("word"))


class Forgetful(WordEvaluator):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        outcome = "pass" if "good" in turn.task else "revise"
        return verdict_reply(self.name, EvaluationVerdict(outcome=outcome))


class Wordy(WordEvaluator):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return Reply.of(self.name, "It is fine.")


class Misnamed(WordEvaluator):
    kind = "critic"


class Trusting(WordEvaluator):
    """Takes the failure of its judge for a yes, and asks it as a worker."""

    def __init__(self) -> None:
        super().__init__(words(), judge=[FunctionAgent("critic", lambda text: "yes" if "good" in text else "no")])

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        reply = await ctx.ask(self.judges[0], Turn(turn.task), key="judge")
        yes = isinstance(reply, Failure) or reply.text == "yes"
        result = CriterionResult(id="word", passed=yes, score=float(yes))
        return verdict_reply(self.name, EvaluationVerdict(outcome="pass" if yes else "revise", criteria=(result,)))


@pytest.mark.parametrize(
    ("evaluator", "mistake"),
    [
        (lambda: Lenient(words()), "The verdict on bad work is 'pass'"),
        (lambda: Lenient(words()), "blanks passes"),
        (lambda: Forgetful(words()), "A verdict names every criterion once"),
        (lambda: Wordy(words()), "replies without a verdict"),
        (lambda: Misnamed(words()), f"The `kind` of an evaluator is {EVALUATOR!r}"),
        (Trusting, "Work passes although a check or a judge failed"),
        (Trusting, "set  purpose='judge'"),
    ],
)
def test_each_mistake_is_found(evaluator: object, mistake: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_evaluator(evaluator, GOOD, BAD)  # pyright: ignore[reportArgumentType]
    assert mistake in str(caught.value)
