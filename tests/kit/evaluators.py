"""Evaluators for tests of the core, which know nothing of rubrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from teamwright.agents.agent import Agent, Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.evaluators import EVALUATOR, Evaluator, verdict_reply
from teamwright.values.specs.evaluation import Criterion, Evaluate, Length
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import CriterionResult, EvaluationVerdict, Reply, Turn

WORD = "good"
evaluated: list[str] = []
"""The work that `WordEvaluator` has looked at, in this process."""


def words(*ids: str, **fields: object) -> Evaluate:
    """Declare an evaluation by `WordEvaluator`, with a criterion for each id."""
    criteria = tuple(Criterion(id=one, length=Length(min=1)) for one in ids or ("word",))
    return Evaluate.model_validate({"evaluator": "tests.kit.evaluators:WordEvaluator", "criteria": criteria, **fields})


class WordEvaluator(Evaluator):
    """Passes work that contains a word, by one effect; every criterion has the same result."""

    kind = EVALUATOR

    def __init__(self, declaration: Evaluate, *, judge: Sequence[Agent] = ()) -> None:
        self.name, self.declaration, self.judges = "words", declaration, tuple(judge)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Look for the word."""

        async def call(_: Attempt) -> Returned:
            evaluated.append(turn.task)
            return Returned(WORD in turn.task)

        effect = Effect(kind="function", name="look", request=digest(turn.task), call=call)
        found = bool((await ctx.effect("look", effect)).value)
        results = tuple(
            CriterionResult(id=one.id, passed=found, score=float(found), reason="" if found else f"no {WORD!r} in it")
            for one in self.declaration.rubric
        )
        verdict = EvaluationVerdict(
            outcome="pass" if found else "revise", criteria=results, suggestions=() if found else (f"Add {WORD!r}.",)
        )
        return verdict_reply(self.name, verdict)


class AnyEvaluator(Evaluator):
    """Answers with whatever a function returns, or raises what it raises."""

    kind = EVALUATOR
    name = "anything"
    judges: tuple[Agent, ...] = ()

    def __init__(self, declaration: Evaluate, answer: Callable[[], object]) -> None:
        self.declaration, self._answer = declaration, answer

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer."""
        answer = self._answer()
        if isinstance(answer, EvaluationVerdict):
            return verdict_reply(self.name, answer)
        return Reply.of(self.name, "a verdict of sorts", data=answer)
